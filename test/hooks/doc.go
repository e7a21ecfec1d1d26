// Package hooks proves that a hook is told of everything that happens, in order, whatever happens to the server.
package hooks
