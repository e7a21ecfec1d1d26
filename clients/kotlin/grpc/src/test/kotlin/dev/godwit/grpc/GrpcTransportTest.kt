package dev.godwit.grpc

import dev.godwit.GodwitClient
import dev.godwit.ListenEvents
import dev.godwit.RefusedException
import dev.godwit.UnreachableException
import dev.godwit.backend.awaitSettled
import dev.godwit.backend.publish
import dev.godwit.backend.publishMessage
import dev.godwit.messaging.Topics
import dev.godwit.messaging.topics
import io.grpc.Status
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Test
import java.nio.file.Files
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.time.Duration.Companion.minutes

class GrpcTransportTest {
    private fun realTime(test: suspend kotlinx.coroutines.CoroutineScope.() -> Unit) = runBlocking(Dispatchers.Default) { withTimeout(PATIENCE, test) }

    private fun client(server: Server, configure: GodwitClient.Builder.() -> Unit = { apiKey("dev") }) = GodwitClient("http://${server.http}") {
        transport(GrpcTransport("127.0.0.1", server.grpc.substringAfterLast(':').toInt(), plaintext = true))
        configure()
    }

    @Test
    fun `notifications and messages come over gRPC and restarts of the server are outlived`() = realTime {
        Server("--dev").use { server ->
            val client = client(server)
            val titles = Channel<String>(Channel.UNLIMITED)
            val texts = Channel<String>(Channel.UNLIMITED)
            val topics = Topics { texts.send(it.text) }.apply { subscribe("rides.*") }
            val listener = launch { client.listen("driver-42", { this.topics = topics }) { titles.send(it.title) } }

            val first = client.publish("driver-42") { title = "one" }
            assertEquals("one", titles.receive())
            assertEquals("acked", client.awaitSettled(first.id, "driver-42").status)
            topics.active()
            client.publishMessage("rides.new", "ride 7".encodeToByteArray())
            assertEquals("ride 7", texts.receive())

            server.kill()
            server.start()
            val second = client.publish("driver-42") { title = "two" }
            assertEquals("two", titles.receive())
            listener.cancelAndJoin()
            assertEquals("acked", client.awaitSettled(second.id, "driver-42").status)
        }
    }

    @Test
    fun `the acknowledgement of the last handler is sent before the end`() = realTime {
        Server("--dev").use { server ->
            val client = client(server)
            repeat(ROUNDS) {
                val handled = Channel<Unit>(Channel.UNLIMITED)
                val listener = launch { client.listen("driver-$it") { handled.send(Unit) } }
                val receipt = client.publish("driver-$it") { title = "one" }
                handled.receive()
                listener.cancelAndJoin()
                assertEquals("acked", client.awaitSettled(receipt.id, "driver-$it").status)
            }
        }
    }

    @Test
    fun `a client that the server refuses stops`() = realTime {
        val key = Files.createTempFile("godwit-kotlin-key-", "").toFile()
        key.writeText("a-key-that-is-long-enough\n")
        Server("--bootstrap-app", "rides", "--bootstrap-key-file", key.path).use { server ->
            val refused = assertFailsWith<RefusedException> { client(server) { token("none") }.listen("driver-42") {} }
            assertEquals("unauthenticated", refused.reason)
            key.delete()
        }
    }

    @Test
    fun `a server that is not there is tried again`() = realTime {
        val failures = Channel<Throwable>(Channel.UNLIMITED)
        val client = GodwitClient("http://127.0.0.1:1") { transport(GrpcTransport("127.0.0.1", 1, plaintext = true)) }
        val told = object : ListenEvents {
            override fun disconnected(error: Throwable, retryMillis: Long) {
                failures.trySend(error)
            }
        }
        val listener = launch { client.listen("driver-42", { events = told }) {} }
        repeat(2) { assertIs<UnreachableException>(failures.receive()) }
        listener.cancelAndJoin()
    }

    @Test
    fun `only the server refuses and no proxy`() {
        assertIs<RefusedException>(endOf(Status.UNAUTHENTICATED.withDescription("token has expired")))
        assertIs<RefusedException>(endOf(Status.PERMISSION_DENIED))
        assertIs<UnreachableException>(endOf(Status.PERMISSION_DENIED.withDescription("HTTP status code 403")))
        assertIs<UnreachableException>(endOf(Status.UNIMPLEMENTED.withDescription("HTTP status code 404")))
        assertIs<UnreachableException>(endOf(Status.OK))
    }

    private companion object {
        val PATIENCE = 4.minutes
        const val ROUNDS = 20
    }
}
