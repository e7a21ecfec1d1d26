// Package path holds benchmarks of a notification's whole way through a server in this process: published over HTTP,
// on disk, delivered, acknowledged. Their client allocates nothing, so that what they count is the server's.
package path
