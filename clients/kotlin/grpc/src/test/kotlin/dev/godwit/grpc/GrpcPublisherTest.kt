package dev.godwit.grpc

import dev.godwit.GodwitClient
import dev.godwit.Priority
import dev.godwit.ServerException
import dev.godwit.UnreachableException
import dev.godwit.backend.Fcm
import dev.godwit.backend.GrpcPublisher
import dev.godwit.backend.Publication
import dev.godwit.backend.Step
import dev.godwit.backend.status
import io.grpc.ManagedChannel
import io.grpc.okhttp.OkHttpChannelBuilder
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import kotlin.time.Duration.Companion.minutes

class GrpcPublisherTest {
    private fun published(test: suspend (publisher: GrpcPublisher, client: GodwitClient, channel: ManagedChannel) -> Unit) = runBlocking(Dispatchers.Default) {
        withTimeout(PATIENCE) {
            Server("--dev").use { server ->
                val channel = OkHttpChannelBuilder.forAddress("127.0.0.1", server.grpc.substringAfterLast(':').toInt()).usePlaintext().build()
                try {
                    test(GrpcPublisher(channel, "dev"), GodwitClient("http://${server.http}") { apiKey("dev") }, channel)
                } finally {
                    channel.shutdownNow()
                }
            }
        }
    }

    @Test
    fun `a publication is stored as over HTTP and is known when it comes again`() = published { publisher, client, _ ->
        val ride = Publication("driver-42").apply {
            title = "New ride"
            data = """{"fare":120}""".encodeToByteArray()
            priority = Priority.HIGH
            ttlMillis = 60_000
            escalate = listOf(Step("live"))
            fcm = Fcm().apply {
                ongoing = true
                shortText = "5 min"
            }
        }
        val receipt = publisher.publish(ride)
        assertEquals(listOf(ride.id, "driver-42", "stored", false), listOf(receipt.id, receipt.to, receipt.status, receipt.duplicate))
        assertNotNull(receipt.expiresAt)
        assertTrue(publisher.publish(ride).duplicate)
        assertEquals(1L, publisher.recall(ride.id))
        assertEquals("recalled", client.status(ride.id, "driver-42").status)
    }

    @Test
    fun `a stream has a receipt for each publication in their order`() = published { publisher, _, _ ->
        val publications = List(MANY) { Publication(if (it == 5) "no name" else "driver-${it % 7}").apply { title = "$it" } }
        val receipts = publisher.publishAll(publications.asFlow()).toList()
        assertEquals(publications.map { it.to }, receipts.map { it.to })
        assertEquals(publications.map { it.id }, receipts.map { it.id })
        assertEquals(listOf(5), receipts.indices.filter { receipts[it].error != null })
        assertIs<ServerException>(receipts[5].error)
    }

    @Test
    fun `a stream whose receipts nobody takes any more ends its publications`() = published { publisher, _, _ ->
        var published = 0
        val endless = flow {
            while (true) {
                emit(Publication("driver-42").apply { title = "again" })
                published++
            }
        }
        assertEquals("stored", publisher.publishAll(endless).first().status)
        assertTrue(published > 0)
    }

    @Test
    fun `a stream fails as its publications do, or as the server says`() = published { publisher, _, channel ->
        val broken = flow {
            emit(Publication("driver-42").apply { title = "New ride" })
            throw IllegalArgumentException("no more rides")
        }
        assertFailsWith<IllegalArgumentException> { publisher.publishAll(broken).collect {} }
        val endless = flow { while (true) emit(Publication("driver-42").apply { title = "again" }) }
        assertEquals(401, assertFailsWith<ServerException> { GrpcPublisher(channel, "wrong").publishAll(endless).collect {} }.status)
    }

    @Test
    fun `the server's refusal has its field and status`() = published { publisher, _, channel ->
        val e = assertFailsWith<ServerException> { publisher.publish("driver-42") { locale = "no such locale" } }
        assertEquals(400 to "locale", e.status to e.field)
        assertEquals(401, assertFailsWith<ServerException> { GrpcPublisher(channel, "wrong").publish("driver-42") { title = "Hi" } }.status)
    }

    @Test
    fun `a server that is not there cannot be reached`() = runBlocking(Dispatchers.Default) {
        val channel = OkHttpChannelBuilder.forAddress("127.0.0.1", 1).usePlaintext().build()
        assertFailsWith<UnreachableException> { GrpcPublisher(channel, "dev").publish("driver-42") { title = "Hi" } }
        channel.shutdownNow()
        Unit
    }

    private companion object {
        val PATIENCE = 4.minutes
        const val MANY = 1_000
    }
}
