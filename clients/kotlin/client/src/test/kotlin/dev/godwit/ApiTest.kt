package dev.godwit

import dev.godwit.backend.getObject
import dev.godwit.backend.publish
import dev.godwit.backend.publishMessage
import dev.godwit.backend.status
import dev.godwit.http.retryAfterMillis
import kotlinx.coroutines.runBlocking
import mockwebserver3.MockResponse
import mockwebserver3.MockWebServer
import okhttp3.Headers.Companion.headersOf
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue

class ApiTest {
    private fun problem(status: Int, type: String) = MockResponse(
        status,
        headersOf("Content-Type", "application/problem+json"),
        """{"type":"/problems/$type","status":$status,"detail":"why","later":[{}]}""",
    )

    private fun server(vararg answers: MockResponse, test: suspend (GodwitClient, MockWebServer, List<Long>) -> Unit) {
        MockWebServer().use { server ->
            server.start()
            answers.forEach(server::enqueue)
            val waits = ArrayList<Long>()
            val client = GodwitClient(server.url("/under/").toString()) {
                apiKey("secret")
                attempts(3)
                onRetry { _, wait -> waits += wait }
            }
            client.use { runBlocking { test(it, server, waits) } }
        }
    }

    private val stored = MockResponse(body = """{"id":"x","to":"a","status":"stored","duplicate":false,"expires_at":"2026-11-21T00:00:30.123Z","later":1}""")

    @Test
    fun `a publish is tried again under the same id`() = server(problem(503, "unavailable"), MockResponse(502, body = "<html>"), stored) {
            client,
            server,
            waits,
        ->
        assertEquals("stored", client.publish("a") { title = "Hi" }.status)
        val bodies = List(3) { server.takeRequest().also { assertEquals("/under/v1/notifications", it.url.encodedPath) }.body!!.utf8() }
        assertEquals(1, bodies.toSet().size)
        assertEquals(2, waits.size)
    }

    @Test
    fun `the server's wait is kept`() {
        val busy = problem(429, "rate-limited").newBuilder().setHeader("Retry-After", "1").build()
        server(busy, stored) { client, _, waits ->
            client.publish("a") { title = "Hi" }
            assertTrue(waits.single() >= 1_000)
        }
    }

    @Test
    fun `what the server refuses is not tried again`() = server(problem(404, "not-found")) { client, server, waits ->
        val e = assertFailsWith<ServerException> { client.getObject("g", "o") }
        assertEquals(listOf(404, "/problems/not-found", "why"), listOf(e.status, e.type, e.detail))
        assertEquals(emptyList(), waits)
        assertEquals("Bearer secret", server.takeRequest().headers["Authorization"])
    }

    @Test
    fun `a server that cannot be reached is said after the last try`() = server { client, server, waits ->
        server.close()
        assertFailsWith<UnreachableException> { client.status("x", "a") }
        assertEquals(2, waits.size)
    }

    @Test
    fun `an answer that cannot be read is an exception`() {
        for (body in listOf("", "[]", "{\"id\":7}", "{\"seq\":-1}")) {
            server(MockResponse(body = body)) { client, _, _ -> assertFailsWith<GodwitException>(body) { client.status("x", "a") } }
        }
    }

    @Test
    fun `names that lead elsewhere are refused here`() = server { client, _, _ ->
        for (name in listOf("", ".", "..", "a/b", "a b")) {
            assertFailsWith<IllegalArgumentException>(name) { client.status(name, "a") }
            assertFailsWith<IllegalArgumentException>(name) { client.listen(name) {} }
        }
        assertFailsWith<IllegalArgumentException> { client.publishMessage("a..b", ByteArray(0)) }
        for (address in listOf("ftp://x", "x", "", "http://x/?a", "http://x#a")) assertFailsWith<IllegalArgumentException>(address) { GodwitClient(address) }
    }

    @Test
    fun `Retry-After is read as seconds and as a date`() {
        val now = 1_795_219_200_000L // Sat, 21 Nov 2026 00:00:00 GMT
        assertEquals(
            listOf(7_000L, 60_000L, 0L, 0L, 0L),
            listOf("7", "Sat, 21 Nov 2026 00:01:00 GMT", "Fri, 20 Nov 2026 00:00:00 GMT", "soon", "-7").map {
                retryAfterMillis(it, now)
            },
        )
    }
}
