// Package foreign proves that clients nobody here wrote work with the server: Python's websockets, sseclient, grpcio
// and http_ece, npm's http_ece, curl, grpcurl, a browser, and h2spec for the HTTP/2 beneath gRPC.
package foreign
