// Package foreign proves that clients nobody here wrote work with the server: Python's websockets, sseclient and
// grpcio, curl, grpcurl, a browser, and h2spec for the HTTP/2 beneath gRPC.
package foreign
