package dev.godwit

import dev.godwit.backend.publish
import dev.godwit.backend.status
import dev.godwit.messaging.Objects
import dev.godwit.messaging.objects
import dev.godwit.support.Got
import dev.godwit.support.KilledProgram
import dev.godwit.support.Script
import dev.godwit.support.Server
import dev.godwit.support.realTime
import dev.godwit.wire.decodeFrame
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runTest
import mockwebserver3.MockResponse
import mockwebserver3.MockWebServer
import okhttp3.Headers.Companion.headersOf
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.io.IOException
import java.nio.file.Path
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertTrue

/** What phones, networks and servers do to a program. */
class FaultsTest {
    @TempDir lateinit var folder: Path

    /** A server that welcomes and says one more thing. */
    private class Welcomes(private val then: (WebSocket) -> Unit) : WebSocketListener() {
        override fun onMessage(webSocket: WebSocket, text: String) {
            if ("\"hello\"" !in text) return
            webSocket.send("""{"welcome":{"session":"s","app":"rides","recipient":"driver-42","heartbeat":"30s"}}""")
            then(webSocket)
        }

        override fun onClosing(webSocket: WebSocket, code: Int, reason: String) {
            webSocket.close(code, null)
        }

        override fun onOpen(webSocket: WebSocket, response: Response) = Unit
    }

    private fun welcomes(then: (WebSocket) -> Unit = {}) = MockResponse.Builder().webSocketUpgrade(Welcomes(then)).build()

    private fun closes(code: Int) = welcomes { it.close(code, null) }

    private fun notifies() = welcomes { it.send("""{"notification":{"id":"ride-1","seq":1,"title":"New ride"}}""") }

    /** Listens to a server that plays one answer after the other, until a notification comes. */
    private fun listens(vararg answers: MockResponse) = realTime {
        MockWebServer().use { server ->
            server.start()
            answers.forEach(server::enqueue)
            server.enqueue(notifies())
            val got = Got()
            GodwitClient(server.url("/").toString()).use { client ->
                val listener = launch { client.listen("driver-42", { events = got }) { got.notifications.send(it) } }
                assertEquals("New ride", got.notifications.receive().title)
                listener.cancelAndJoin()
            }
            assertEquals(answers.size + 1, server.requestCount)
        }
    }

    @Test
    fun `a server that is drained or full is found again`() = listens(closes(1012), closes(1013), closes(1001), closes(1011))

    @Test
    fun `a network that first wants a sign-in is outlasted`() {
        val page = headersOf("Content-Type", "text/html")
        listens(
            MockResponse(200, page, "<html>Welcome to the hotel</html>"),
            MockResponse(302, headersOf("Location", "http://127.0.0.1:1/sign-in")),
            MockResponse(401, page, "<html>Sign in</html>"),
            MockResponse(403, page, "<html>Sign in</html>"),
            MockResponse(404, page, "<html>Not here</html>"),
            MockResponse(511, page, "<html>Sign in</html>"),
        )
    }

    @Test
    fun `a program that is killed before its acknowledgement leaves shows nothing twice`() = realTime {
        Server.development().use { server ->
            val client = server.client()
            val receipt = client.publish("driver-42") { title = "New ride" }
            val shown = File(folder.toFile(), "shown")
            assertEquals(KilledProgram.KILLED, KilledProgram.run(server.url, "driver-42", folder.toFile(), killed = true))
            assertFalse(client.status(receipt.id, "driver-42").settled)
            assertEquals(0, KilledProgram.run(server.url, "driver-42", folder.toFile(), killed = false))
            assertEquals(listOf(receipt.id), shown.readLines())
            assertEquals("acked", client.status(receipt.id, "driver-42").status)
        }
    }

    /** A disk that is full for a while. */
    private class Full : Storage {
        var full = true
        val kept = MemoryStorage()

        override fun read() = kept.read()

        override fun write(content: ByteArray) {
            if (full) throw IOException("no space left on device")
            kept.write(content)
        }

        override fun setAside() = kept.setAside()
    }

    @OptIn(ExperimentalCoroutinesApi::class)
    @Test
    fun `a full disk is reported and ends nothing and what it did not take is stored later`() = runTest {
        val disk = Full()
        val told = ArrayList<Throwable>()
        val handled = ArrayList<Long>()
        val s = Script(this)
        s.options.objects = Objects("site", disk, s.clock, kotlinx.coroutines.test.StandardTestDispatcher(testScheduler)).apply {
            register("a") { handled += it.version }
        }
        s.options.events = object : ListenEvents {
            override fun failed(error: Throwable) {
                told += error
            }
        }
        s.listen {}
        val signal = { version: Int -> decodeFrame("""{"object":{"group":"site","object":"a","version":"$version"}}""") }
        s.last.say(signal(1))
        advanceTimeBy(1_000)
        assertTrue(told.isNotEmpty() && told.all { it is IOException })
        disk.full = false
        s.last.say(signal(2))
        advanceTimeBy(1_000)
        assertEquals(listOf(1L, 2L), handled)
        s.end()
        assertEquals(2L, Objects("site", disk.kept).status("a").version)
    }

    @Test
    fun `a full disk keeps the ids that it has`() {
        val disk = Full()
        val seen = Deduplicator(disk)
        assertFailsWith<IOException> { seen.shown("a") }
        disk.full = false
        seen.shown("b")
        assertEquals(listOf("b"), Deduplicator(disk.kept).held())
    }
}
