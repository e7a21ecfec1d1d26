// Package compat tests, from outside, that Godwit takes the place of nammayatri's notification-service: the real binary and a real Redis,
// back ends that publish in that service's way, and its clients over grpc-go and grpcio. The common behaviour of both services is tested
// on a stand-in of the former one too, so that a mistake of these tests shows. The tests assert order and number, never durations.
package compat
