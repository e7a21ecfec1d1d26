// Package compat tests, from outside, that Godwit takes the place of nammayatri's notification-service: the real binary and a real Redis,
// back ends that publish in that service's way, and its clients over grpc-go and grpcio. What both services do alike is tested on a
// stand-in of the former one too, so that a mistake of these tests shows. What is asserted is order and number, never how long something
// took.
package compat
