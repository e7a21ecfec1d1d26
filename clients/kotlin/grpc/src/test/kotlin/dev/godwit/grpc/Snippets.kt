@file:Suppress("UNUSED_VARIABLE", "unused")

package dev.godwit.grpc

import dev.godwit.GodwitClient
import dev.godwit.Token
import dev.godwit.backend.GrpcPublisher
import dev.godwit.backend.Publication
import io.grpc.okhttp.OkHttpChannelBuilder
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.map

// What the README shows. GuideTest of the client holds the page to it, so it compiles.

private fun fetchToken() = "token"

private fun overGrpc() {
    val overGrpc = GodwitClient("https://godwit.example.org") {
        transport(GrpcTransport("godwit.example.org", 50051))
        tokens { Token(fetchToken()) }
    }
}

private class Ride(val driver: String)

private suspend fun publish(key: String, rides: Flow<Ride>) {
    val publisher = GrpcPublisher(OkHttpChannelBuilder.forAddress("godwit.example.org", 50051).build(), key)
    publisher.publishAll(rides.map { ride -> Publication(ride.driver).apply { title = "New ride" } }).collect { receipt -> check(receipt.error == null) }
}
