package dev.godwit.live

import dev.godwit.ListenEvents
import dev.godwit.NetworkMonitor
import dev.godwit.RecalledException
import dev.godwit.RefusedException
import dev.godwit.Request
import dev.godwit.ServerException
import dev.godwit.Token
import dev.godwit.UnreachableException
import dev.godwit.messaging.RequestHandler
import dev.godwit.messaging.requests
import dev.godwit.support.Script
import dev.godwit.support.VirtualClock
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Test
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import kotlin.time.Instant

@OptIn(ExperimentalCoroutinesApi::class)
class ListenerTest {
    private fun TestScope.later(millis: Long) {
        advanceTimeBy(millis)
        runCurrent()
    }

    private val disconnects = ArrayList<String>()
    private val failures = ArrayList<Throwable>()
    private val recalls = ArrayList<String>()

    private fun Script.watched() = apply {
        options.events = object : ListenEvents {
            override fun disconnected(error: Throwable, retryMillis: Long) {
                disconnects += error.message.orEmpty()
            }

            override fun recalled(ids: List<String>) {
                recalls += ids
            }

            override fun failed(error: Throwable) {
                failures += error
            }
        }
    }

    @Test
    fun `a handled notification is acknowledged and a failed one is not`() = runTest {
        val s = Script(this).listen { n ->
            when (n.id) {
                "bad" -> error("broken")
                "later" -> redeliver(60_000, "busy")
            }
        }
        for (id in listOf("good", "bad", "later")) s.last.notify(id)
        later(5)
        assertEquals(listOf(ClientFrame.Nack(listOf("bad")), ClientFrame.Nack(listOf("later"), 60_000, "busy")), s.last.nacks())
        assertEquals(listOf("good"), s.last.acks())
        s.end()
    }

    @Test
    fun `a handler that gives up by a time of its own has failed`() = runTest {
        val s = Script(this).apply {
            options.requests = RequestHandler { withTimeout(1_000) { awaitCancellation() } }
        }.listen { n -> if (n.id == "slow") withTimeout(1_000) { awaitCancellation() } }
        for (id in listOf("slow", "quick")) s.last.notify(id)
        s.last.say(ServerFrame.Requested(Request("1", "orders.create", "", "", "", emptyMap(), ByteArray(0), "", null)))
        later(2_000)
        assertEquals(listOf(ClientFrame.Nack(listOf("slow"))), s.last.nacks())
        assertEquals(listOf(500), s.last.sent.filterIsInstance<ClientFrame.Reply>().map { it.answer.status })
        assertEquals(listOf("quick"), s.last.acks())
        s.end()
    }

    @Test
    fun `a listener without a part for requests says that it answers none`() = runTest {
        val s = Script(this).listen {}
        s.last.say(ServerFrame.Requested(Request("1", "orders.create", "", "", "", emptyMap(), ByteArray(0), "", null)))
        later(5)
        assertEquals(listOf(501), s.last.sent.filterIsInstance<ClientFrame.Reply>().map { it.answer.status })
        s.end()
    }

    @Test
    fun `a provider of tokens that gives up by a time of its own is asked again`() = runTest {
        var asked = 0
        val s = Script(this).watched().apply {
            tokens = { if (++asked == 1) withTimeout(1_000) { awaitCancellation() } else Token("t") }
        }.listen {}
        later(10_000)
        assertTrue(disconnects.single().startsWith("get token"), disconnects.toString())
        assertEquals(1, s.connections.size)
        s.end()
    }

    @Test
    fun `a handler that asks for the impossible gets what can be had`() = runTest {
        val s = Script(this).listen { n ->
            when (n.id) {
                "past" -> redeliver(-1, "busy")
                "far" -> redeliver(Long.MAX_VALUE)
                else -> redeliver(1, "x" + "é".repeat(600))
            }
        }
        for (id in listOf("past", "far", "long")) s.last.notify(id)
        later(5)
        val nacks = s.last.nacks().associate { it.ids.single() to it.afterMillis to it.reason.encodeToByteArray().size }
        assertEquals(mapOf(("past" to 1L) to 4, ("far" to 86_400_000L) to 0, ("long" to 1L) to 999), nacks)
        s.end()
    }

    @Test
    fun `a redelivered notification is handled once and acknowledged again`() = runTest {
        val handled = ArrayList<String>()
        val s = Script(this).listen { n -> handled += n.id }
        s.last.notify("a")
        later(5)
        assertEquals(listOf("a"), s.last.acks())
        s.last.notify("a") // the acknowledgement was lost
        later(5)
        assertEquals(listOf("a"), s.last.acks())
        s.last.end()
        later(5)
        s.last.notify("a") // once more, on the next connection
        later(5)
        assertEquals(2, s.connections.size)
        assertEquals(listOf("a"), s.last.acks())
        assertEquals(listOf("a"), handled)
        s.end()
    }

    @Test
    fun `an acknowledgement that its connection lost is sent on the next one`() = runTest {
        val release = CompletableDeferred<Unit>()
        val s = Script(this).listen { release.await() }
        s.last.notify("a")
        runCurrent()
        s.last.end()
        runCurrent()
        release.complete(Unit)
        later(5)
        assertEquals(listOf("a"), s.connections[1].acks())
        s.end()
    }

    @Test
    fun `a lone acknowledgement leaves at once and those that follow share a frame`() = runTest {
        val s = Script(this).listen {}
        fun frames() = s.last.sent.filterIsInstance<ClientFrame.Ack>().map { it.ids }
        for (id in listOf("a", "b", "c")) {
            s.last.notify(id)
            runCurrent()
        }
        assertEquals(listOf(listOf("a")), frames())
        later(5)
        assertEquals(listOf(listOf("a"), listOf("b", "c")), frames())
        s.end()
    }

    @Test
    fun `half of a window of acknowledgements does not wait`() = runTest {
        val s = Script(this).apply {
            options.window = 4
            options.ackDelayMillis = 1_000
        }.listen {}
        for (id in listOf("a", "b", "c")) {
            s.last.notify(id)
            runCurrent()
        }
        assertEquals(listOf("a", "b", "c"), s.last.acks())
        s.end()
    }

    @Test
    fun `the first retry is immediate and later ones stay within bounds`() = runTest {
        val at = ArrayList<Long>()
        val s = Script(this) { _, _ ->
            at += testScheduler.currentTime
            throw UnreachableException("connection refused")
        }.listen {}
        later(24 * 3600 * 1000L)
        assertEquals(listOf(0L, 0L), at.take(2))
        for (i in 2..<at.size) assertTrue(at[i] - at[i - 1] <= minOf(1_000L shl minOf(i - 2, 20), 300_000L), "try ${i + 1} after ${at[i] - at[i - 1]} ms")
        assertTrue(at.size in 24 * 60 / 5..24 * 60, "${at.size} tries in a day")
        s.end()
    }

    @Test
    fun `a goodbye's time is kept, whatever the network does`() = runTest {
        var changed = Runnable {}
        val s = Script(this) { n, c ->
            c.welcome()
            if (n == 1) {
                c.say(ServerFrame.Goodbye("shutdown", 60_000))
                c.end()
            }
        }.apply {
            monitor = NetworkMonitor {
                changed = it
                AutoCloseable {}
            }
        }.listen {}
        changed.run()
        later(59_999)
        assertEquals(1, s.connections.size)
        later(1)
        assertEquals(2, s.connections.size)
        s.end()
    }

    @Test
    fun `a server that is too busy is not called again at once`() = runTest {
        val s = Script(this) { n, c -> if (n == 1) throw ClosedException(1013, "") else c.welcome() }.listen {}
        assertEquals(1, s.connections.size)
        later(1_000)
        assertEquals(2, s.connections.size)
        s.end()
    }

    @Test
    fun `a refusal ends listening`() = runTest {
        for (reason in listOf("unauthenticated", "forbidden", "unknown_app", "replaced", "erased")) {
            val s = Script(this) { _, c ->
                c.say(ServerFrame.Goodbye(reason, 0))
                c.end()
            }.listen {}
            assertEquals(reason, assertIs<RefusedException>(s.outcome.await()).reason)
        }
    }

    @Test
    fun `a hello that is refused ends listening with the server's words`() = runTest {
        val s = Script(this) { _, c -> c.say(ServerFrame.Failed("bad_field", "recipient is too long", "recipient", emptyList())) }.listen {}
        assertTrue("recipient is too long" in s.outcome.await().message.orEmpty())
    }

    @Test
    fun `an answer of a network that wants a sign-in does not end listening`() = runTest {
        fun answer(type: String, status: Int) = ServerException(status, type, "", "Welcome to the hotel", "", 0)
        val s = Script(this) { n, c -> if (n < 5) throw answer("", listOf(0, 200, 302, 404, 511)[n]) else c.welcome() }.listen {}
        later(60_000)
        assertEquals(5, s.connections.size)
        s.end()
        val refused = Script(this) { _, _ -> throw answer("/problems/not-found", 404) }.listen {}
        assertEquals("answer", assertIs<RefusedException>(refused.outcome.await()).reason)
    }

    @Test
    fun `an expired token is replaced and the same one is not tried twice`() = runTest {
        val tokens = ArrayDeque(listOf("old", "new", "new", "new"))
        val s = Script(this) { _, c ->
            c.say(ServerFrame.Goodbye("token_expired", 0))
            c.end()
        }
        s.tokens = { Token(tokens.removeFirst()) }
        s.listen {}
        assertEquals("token_expired", assertIs<RefusedException>(s.outcome.await()).reason)
        assertEquals(listOf("old", "new"), s.connections.map { (it.sent[0] as ClientFrame.Hello).token })
    }

    @Test
    fun `a provider that fails is asked again`() = runTest {
        var asked = 0
        val s = Script(this).watched()
        s.tokens = { if (++asked < 3) throw IllegalStateException("no network") else Token("t") }
        s.listen {}
        later(1_000)
        assertEquals(listOf("get token: no network", "get token: no network"), disconnects)
        assertEquals(1, s.connections.size)
        s.end()
    }

    @Test
    fun `a token is renewed before it ends by the server's clock`() = runTest {
        var made = 0
        // The device's clock is an hour behind.
        val start = VirtualClock.START + 3600_000
        val s = Script(this) { _, c -> c.welcome(Instant.fromEpochMilliseconds(start)) }
        s.tokens = { Token("token-${++made}", start + made * 100_000) }
        s.listen {}
        fun hellos() = s.last.sent.filterIsInstance<ClientFrame.Hello>().map { it.token }
        repeat(3) {
            later(29_999)
            s.last.say(ServerFrame.Unknown)
        }
        assertEquals(listOf("token-1"), hellos())
        later(3)
        assertEquals(listOf("token-1", "token-2"), hellos())
        assertEquals(1, s.connections.size)
        s.end()
    }

    @Test
    fun `a silent server is pinged and then left`() = runTest {
        val s = Script(this).watched().listen {}
        later(30_000)
        assertEquals(listOf<ClientFrame>(ClientFrame.Ping()), s.last.sent.drop(1))
        later(29_999)
        assertEquals(1, s.connections.size)
        later(1)
        assertEquals(2, s.connections.size)
        assertTrue("silent" in disconnects.single())
        s.end()
    }

    @Test
    fun `a change of the network probes the connection and leaves a dead one within a second`() = runTest {
        var changed = Runnable {}
        val s = Script(this).watched().apply {
            monitor = NetworkMonitor {
                changed = it
                AutoCloseable {}
            }
        }.listen {}
        changed.run()
        runCurrent()
        assertIs<ClientFrame.Ping>(s.last.sent.last())
        s.last.say(ServerFrame.Pong("")) // it lives
        later(10_000)
        assertEquals(1, s.connections.size)
        changed.run()
        later(LEAST_PATIENCE - 1)
        s.last.notify("a") // from the server to the device it lives, but no answer comes
        later(1)
        assertEquals(2, s.connections.size)
        s.end()
    }

    @Test
    fun `a change of the network ends the wait for the next try`() = runTest {
        var changed = Runnable {}
        var down = true
        val s = Script(this) { _, c -> if (down) throw UnreachableException("no route") else c.welcome() }
            .apply {
                monitor = NetworkMonitor {
                    changed = it
                    AutoCloseable {}
                }
            }.listen {}
        later(3600_000)
        down = false
        val tries = s.connections.size
        changed.run()
        runCurrent()
        assertEquals(tries + 1, s.connections.size)
        s.end()
    }

    @Test
    fun `a connect that hangs is given up soon after the network changed`() = runTest {
        var changed = Runnable {}
        val s = Script(this) { n, c -> if (n == 1) awaitCancellation() else c.welcome() }
            .apply {
                monitor = NetworkMonitor {
                    changed = it
                    AutoCloseable {}
                }
            }.listen {}
        later(5_000)
        changed.run()
        later(PROBE_PATIENCE)
        assertEquals(2, s.connections.size)
        s.end()
    }

    @Test
    fun `a change right after a connect began leaves it its time`() = runTest {
        var changed = Runnable {}
        val s = Script(this) { _, c ->
            delay(2_000) // a slow network
            c.welcome()
        }.apply {
            monitor = NetworkMonitor {
                changed = it
                AutoCloseable {}
            }
        }.listen {}
        changed.run() // Android tells of the network once when it is asked to
        later(10_000)
        assertEquals(1, s.connections.size)
        s.end()
    }

    @Test
    fun `a change while a connect fails has the next one follow at once`() = runTest {
        var changed = Runnable {}
        val ends = ArrayList<Long>()
        val s = Script(this) { n, c ->
            if (n == 12) changed.run()
            delay(100)
            ends += testScheduler.currentTime
            if (n <= 12) throw UnreachableException("no route") else c.welcome()
        }.apply {
            monitor = NetworkMonitor {
                changed = it
                AutoCloseable {}
            }
        }.listen {}
        later(3600_000)
        assertEquals(100, ends[12] - ends[11])
        s.end()
    }

    @Test
    fun `a connection that ends while it is probed is made again at once`() = runTest {
        var changed = Runnable {}
        val s = Script(this).apply {
            monitor = NetworkMonitor {
                changed = it
                AutoCloseable {}
            }
        }.listen {}
        repeat(10) {
            changed.run()
            s.last.end()
            runCurrent()
        }
        assertEquals(0, testScheduler.currentTime)
        assertEquals(11, s.connections.size)
        s.end()
    }

    @Test
    fun `a device that slept probes first`() = runTest {
        val s = Script(this).listen {}
        later(10_000)
        s.clock.slept = 600_000
        s.last.notify("a") // wakes the session
        later(5)
        assertIs<ClientFrame.Ping>(s.last.sent.last())
        later(PROBE_PATIENCE)
        assertEquals(2, s.connections.size)
        s.end()
    }

    @Test
    fun `a recall cancels the handler and skips what waits`() = runTest {
        val handled = ArrayList<String>()
        var cause: Throwable? = null
        val s = Script(this).watched().listen { n ->
            handled += n.id
            try {
                awaitCancellation()
            } catch (e: RecalledException) {
                cause = e
                throw e
            }
        }
        s.last.notify("running")
        s.last.notify("waiting")
        runCurrent()
        s.last.say(ServerFrame.Recall(listOf("waiting", "running", "unknown")))
        later(5)
        assertEquals(listOf("running"), handled)
        assertIs<RecalledException>(cause)
        assertEquals(listOf("waiting", "running", "unknown"), recalls)
        assertEquals(1, s.last.sent.size, "only the hello was sent")
        s.end()
    }

    @Test
    fun `the acknowledgement of the last handler is sent before the end`() = runTest {
        val s = Script(this).listen {
            withContext(NonCancellable) { delay(1_000) } // it finishes its work although listening ends
        }
        s.last.notify("a")
        runCurrent()
        s.end()
        assertEquals(listOf("a"), s.last.acks())
        assertTrue(s.last.finished)
    }

    @Test
    fun `a handler that is cancelled by the end acknowledges nothing`() = runTest {
        val s = Script(this).listen { awaitCancellation() }
        s.last.notify("a")
        runCurrent()
        s.end()
        assertEquals(emptyList(), s.last.acks())
    }

    @Test
    fun `concurrency bounds the handlers that run`() = runTest {
        var running = 0
        var most = 0
        val s = Script(this).apply { options.concurrency = 3 }.listen {
            most = maxOf(most, ++running)
            delay(1_000)
            running--
        }
        repeat(10) { s.last.notify("$it") }
        later(20_000)
        assertEquals(10, s.last.acks().size)
        assertEquals(3, most)
        s.end()
    }

    @Test
    fun `what is beyond any window is dropped and not queued`() = runTest {
        val release = CompletableDeferred<Unit>()
        val s = Script(this).listen { release.await() }
        repeat(3_000) {
            s.last.notify("$it")
            runCurrent()
        }
        release.complete(Unit)
        later(1_000)
        assertEquals(1_025, s.last.acks().size, "one running and 1,024 waiting")
        s.end()
    }

    @Test
    fun `a callback that throws ends nothing`() = runTest {
        val s = Script(this)
        s.options.events = object : ListenEvents {
            override fun recalled(ids: List<String>) = error("no")

            override fun failed(error: Throwable) {
                failures += error
                throw error
            }
        }
        s.listen {}
        s.last.say(ServerFrame.Recall(listOf("a")))
        s.last.say(ServerFrame.Failed("bad_field", "after is too long", "after", emptyList()))
        s.last.notify("b")
        later(5)
        assertEquals(listOf("no", "server refused a frame: bad_field: after is too long"), failures.map { it.message })
        assertEquals(listOf("b"), s.last.acks())
        s.end()
    }

    @Test
    fun `only the oldest id is forgotten`() {
        val ids = Newest<Unit>(3)
        for (id in listOf("a", "b", "c", "a", "d")) ids[id] = Unit
        assertEquals(listOf(false, true, true, true), listOf("a", "b", "c", "d").map { it in ids })
    }

    @Test
    fun `a listener that ends before the welcome does not wait`() = runTest {
        val s = Script(this) { _, _ -> awaitCancellation() }.listen {}
        s.end()
        assertEquals(0, testScheduler.currentTime)
        assertIs<kotlinx.coroutines.CancellationException>(s.outcome.await())
    }
}
