@file:Suppress("UNUSED_VARIABLE", "unused")

package dev.godwit.grpc

import dev.godwit.GodwitClient
import dev.godwit.Token

// What the README shows. GuideTest of the client holds the page to it, so it compiles.

private fun fetchToken() = "token"

private fun overGrpc() {
    val overGrpc = GodwitClient("https://godwit.example.org") {
        transport(GrpcTransport("godwit.example.org", 50051))
        tokens { Token(fetchToken()) }
    }
}
