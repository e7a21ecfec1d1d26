// Package requests holds requests and the gateway of the real program to what callers are promised: with workers that are
// killed while they work, and with random calls beside the same handler without a gateway.
package requests
