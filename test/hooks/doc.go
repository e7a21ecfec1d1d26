// Package hooks proves that a hook gets all events in order, even when the server is killed.
package hooks
