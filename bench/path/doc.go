// Package path holds benchmarks of a notification's whole way through a server in this process: it is published over HTTP, stored on disk,
// delivered and acknowledged. Their client allocates nothing, so the allocations they report are the server's.
package path
