package dev.godwit

import dev.godwit.push.GodwitPush
import dev.godwit.push.PushDisplay
import dev.godwit.push.PushMessage
import dev.godwit.support.VirtualClock
import dev.godwit.support.text
import dev.godwit.support.value
import dev.godwit.support.vectors
import kotlinx.coroutines.test.TestCoroutineScheduler
import kotlinx.coroutines.test.runTest
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import mockwebserver3.MockResponse
import mockwebserver3.MockWebServer
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import java.util.stream.Stream
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertTrue

class PushTest {
    /** A device whose process may be killed, and the server that it reports to. */
    private class Device(url: String = "http://127.0.0.1:1") : PushDisplay {
        val clock = VirtualClock(TestCoroutineScheduler())
        private val seenStorage = MemoryStorage()
        private val pushStorage = MemoryStorage()
        private val client = GodwitClient(url) { attempts(1) }
        val did = ArrayList<String>()
        lateinit var push: GodwitPush
            private set

        init {
            restart()
        }

        fun restart() {
            push = GodwitPush(client, Deduplicator(seenStorage, clock), pushStorage, this)
        }

        override fun show(message: PushMessage) {
            did += "show"
        }

        override fun close(id: String) {
            did += "close"
        }
    }

    @TestFactory
    fun `vectors of FCM`() = vectors { step, device -> device.push.handle(step.getValue("fcm").jsonObject.mapValues { it.value.jsonPrimitive.content }) }

    @TestFactory
    fun `vectors of Web Push`() = vectors { step, device -> device.push.handleWebPush(step.getValue("webpush").toString().encodeToByteArray()) }

    private fun vectors(message: (JsonObject, Device) -> Boolean): Stream<DynamicTest> = vectors("push").map { c ->
        DynamicTest.dynamicTest(c.text("name")) {
            MockWebServer().use { server ->
                server.start()
                val device = Device(server.url("/").toString())
                for (step in c.getValue("steps").jsonArray) runTest { play(step.jsonObject, device, server, message) }
            }
        }
    }.stream()

    private suspend fun play(step: JsonObject, device: Device, server: MockWebServer, message: (JsonObject, Device) -> Boolean) {
        val id = step.text("id")
        device.did.clear()
        when (step.text("on")) {
            "live" -> device.push.live(Notification(id))
            "recall" -> device.push.recalled(listOf(id))
            "clicked" -> device.push.clicked(id)
            "dismissed" -> device.push.dismissed(id)
            "push" -> assertTrue(message(step, device))
            "others" -> {
                repeat(step.getValue("count").jsonPrimitive.int) { device.push.live(Notification("other-${System.nanoTime()}-$it")) }
                device.did.clear()
            }
            "later" -> device.clock.slept += step.getValue("hours").jsonPrimitive.int * 3600_000L
            "restart" -> device.restart()
            else -> error("unknown step $step")
        }
        if (device.push.pending) {
            device.restart() // what waits outlives the process
            server.enqueue(MockResponse(body = """{"acked":1}"""))
            device.push.flush()
            device.did += "post"
            val request = server.takeRequest()
            assertEquals("/v1/acks", request.url.encodedPath)
            assertEquals(null, request.headers["Authorization"])
            assertEquals(step["post"]?.value(), Json.parseToJsonElement(request.body!!.utf8()).value())
        }
        assertFalse(device.push.pending)
        assertEquals(step.getValue("want").jsonArray.map { it.jsonPrimitive.content }, device.did.toList())
    }

    private val ride = mapOf("godwit_id" to "ride-1", "title" to "New ride", "godwit_ack" to "token-1", "godwit_track" to "track-1")

    @Test
    fun `a report waits for a network and the server's sign-in page is none`() = runTest {
        MockWebServer().use { server ->
            server.start()
            val device = Device(server.url("/").toString())
            device.push.handle(ride)
            device.push.clicked("ride-1")
            server.enqueue(MockResponse(code = 200, body = "")) // of shown, which only counts
            server.enqueue(MockResponse(code = 404, body = "Welcome to the hotel"))
            assertFailsWith<ServerException> { device.push.flush() }
            device.restart()
            assertTrue(device.push.pending)
            server.enqueue(
                MockResponse(
                    code = 401,
                    body = """{"type":"/problems/unauthenticated","status":401}""",
                    headers = okhttp3.Headers.headersOf("Content-Type", "application/problem+json"),
                ),
            )
            server.enqueue(MockResponse(code = 200, body = ""))
            device.push.flush()
            assertFalse(device.push.pending, "what the server does not take is forgotten")
            assertEquals(listOf("/v1/track", "/v1/acks", "/v1/acks", "/v1/track"), List(4) { server.takeRequest().url.encodedPath })
        }
    }

    @Test
    fun `what is not Godwit's is left alone`() {
        val device = Device()
        assertFalse(device.push.handle(mapOf("title" to "x")))
        for (payload in listOf(
            "",
            "x",
            "[]",
            "{}",
            """{"godwit_id":7}""",
            """{"title":"x"}""",
        )) {
            assertFalse(device.push.handleWebPush(payload.encodeToByteArray()), payload)
        }
        assertEquals(emptyList(), device.did)
    }

    @Test
    fun `a full disk does not keep a message from being shown`() {
        val full = object : Storage {
            override fun read(): ByteArray? = null

            override fun write(content: ByteArray): Unit = throw java.io.IOException("no space left")

            override fun setAside() = Unit
        }
        val shown = ArrayList<String>()
        val errors = ArrayList<String>()
        val display = object : PushDisplay {
            override fun show(message: PushMessage) {
                shown += message.id
            }

            override fun close(id: String) = Unit
        }
        val push = GodwitPush(GodwitClient("http://127.0.0.1:1"), Deduplicator(full), full, display)
        push.onError = { errors += it.message.orEmpty() }
        push.handle(ride)
        assertEquals(listOf("ride-1"), shown)
        assertEquals(3, errors.size) // the tokens, that it is shown, and the report of that
    }
}
