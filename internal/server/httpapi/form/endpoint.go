// Package form converts registrations and sessions to and from JSON, for all kinds of callers.
package form

// MaxEndpoint is enough bytes for an endpoint with all its tags and attributes.
const MaxEndpoint = 64 << 10
