// Package foreign proves that what nobody here wrote works with the server: Python's websockets, sseclient, grpcio
// and http_ece, npm's http_ece, MQTT clients of Python, JavaScript, Go and mosquitto, curl, grpcurl, a browser, and h2spec for the HTTP/2 beneath gRPC. And:
//
//   - compat: Godwit takes the place of nammayatri's notification-service. The real binary and a real Redis, back ends that publish in
//     that service's way, and its clients over grpc-go and grpcio. The common behaviour of both services is tested on a stand-in of the
//     former one too, so that a mistake of these tests shows. The tests assert order and number, never durations.
//   - docs: what the documentation tells people to type runs against a development server, and prints what the documentation says.
//   - wordpress: the plug-in in a WordPress of its own, and under PHP, with the functions of WordPress that it uses in memory, against a real server and
//     a push service.
package foreign
