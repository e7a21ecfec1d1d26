// Package docs runs what the documentation tells people to type, against a development server, and compares what it
// prints with what the documentation says it prints.
package docs
