// Package form is how registrations and sessions look in requests and answers, whoever calls.
package form

// MaxEndpoint holds an endpoint with all its tags and attributes.
const MaxEndpoint = 64 << 10
