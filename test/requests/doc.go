// Package requests checks the promises to callers of requests and of the gateway on the real program: with workers that
// are killed while they work, and with random calls beside the same handler without a gateway.
package requests
