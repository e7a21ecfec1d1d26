package dev.godwit

import dev.godwit.messaging.Objects
import dev.godwit.messaging.RegistrationStatus
import dev.godwit.messaging.SignalHandler
import dev.godwit.messaging.objects
import dev.godwit.messaging.objects.ObjectKey
import dev.godwit.messaging.objects.formatDigest
import dev.godwit.messaging.wire.ObjectAck
import dev.godwit.messaging.wire.Register
import dev.godwit.messaging.wire.Unregister
import dev.godwit.support.Script
import dev.godwit.support.Scripted
import dev.godwit.support.thorough
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Test
import kotlin.random.Random
import kotlin.test.assertEquals
import kotlin.test.assertTrue

@OptIn(ExperimentalCoroutinesApi::class)
class ObjectsTest {
    /** A server's part of registrations, for one device. */
    private class ObjectServer(private val test: TestScope) {
        val registered = HashSet<String>()
        val versions = HashMap<String, Long>()
        val acked = HashMap<String, Long>()
        var latencyMillis = 0L
        private var incoming = HashSet<String>() // slices of a whole set
        private var connection: Scripted? = null

        val digest: String get() = formatDigest(registered.sumOf { ObjectKey("site", it).hash })

        fun connected(c: Scripted) {
            connection = c
            c.welcome(digest = digest)
            for (name in registered) signal(name)
            test.backgroundScope.launch {
                for (frame in c.toServer) {
                    if (latencyMillis > 0) delay(latencyMillis)
                    if (connection === c) take(frame, c)
                }
            }
        }

        private fun take(frame: ClientFrame, c: Scripted) {
            when (frame) {
                is Register -> register(frame, c)
                is Unregister -> {
                    registered -= frame.objects.toSet()
                    c.say(ServerFrame.Registered(emptyList(), "site", digest))
                }
                is ObjectAck -> acked.merge(frame.name, frame.version, ::maxOf)
                is ClientFrame.Ping -> c.say(ServerFrame.Pong(digest))
                else -> Unit
            }
        }

        private fun register(frame: Register, c: Scripted) {
            if (frame.reset) {
                incoming += frame.objects
                if (frame.more) return
                registered.clear()
                registered += incoming
                incoming = HashSet()
            } else {
                registered += frame.objects
            }
            c.say(ServerFrame.Registered(frame.objects, "site", digest))
            registered.forEach(::signal)
        }

        fun put(name: String, version: Long) {
            versions[name] = version
            if (name in registered) signal(name)
        }

        private fun signal(name: String) {
            val version = versions[name] ?: return
            if (version > (acked[name] ?: 0)) connection?.say(ServerFrame.Signalled(Signal("site", name, version, false, ByteArray(0), "")))
        }

        fun cut() {
            connection?.end()
            connection = null
        }

        fun wipe() {
            registered.clear()
            versions.clear()
            acked.clear()
        }
    }

    private fun TestScope.follow(server: ObjectServer, objects: (Script) -> Objects): Pair<Script, Objects> {
        val s = Script(this) { _, c -> server.connected(c) }
        val o = objects(s)
        s.options.objects = o
        return s to o
    }

    @Test
    fun `registrations are confirmed and their signals handled and acknowledged`() = runTest {
        val server = ObjectServer(this)
        val handled = ArrayList<Long>()
        val (s, o) = follow(server) { Objects("site", null, it.clock) }
        o.register("a") { handled += it.version }
        s.listen(null)
        o.settled()
        server.put("a", 1)
        server.put("a", 2)
        advanceTimeBy(100)
        assertEquals(listOf(2L), handled.takeLast(1))
        assertEquals(2L, server.acked["a"])
        o.unregister("a")
        o.settled()
        assertEquals(emptyList(), o.list())
        assertEquals(emptySet(), server.registered)
        s.end()
    }

    @Test
    fun `a handler that fails is called again with the newest version`() = runTest {
        val server = ObjectServer(this)
        val handled = ArrayList<Long>()
        val (s, o) = follow(server) { Objects("site", null, it.clock) }
        o.register("a") {
            handled += it.version
            if (handled.size == 1) error("broken")
            if (handled.size == 2) withTimeout(1) { awaitCancellation() } // which throws a CancellationException
        }
        s.listen(null)
        o.settled()
        server.put("a", 1)
        runCurrent()
        server.put("a", 2)
        advanceTimeBy(10_000)
        assertEquals(listOf(1L, 2L, 2L), handled)
        assertEquals(2L, server.acked["a"])
        s.end()
    }

    @Test
    fun `refusals for good and for now are told apart`() = runTest {
        val (s, o) = follow(ObjectServer(this)) { Objects("site", null, it.clock) }
        val told = ArrayList<String>()
        o.onChange = { told += "${it.name} ${it.status} ${it.error?.code.orEmpty()}" }
        o.register("secret", "busy") {}
        s.listen(null)
        o.settled()
        s.last.say(ServerFrame.RegistrationFailed(listOf("secret"), "", "forbidden", transient = false))
        s.last.say(ServerFrame.RegistrationFailed(listOf("busy"), "", "unavailable", transient = true))
        runCurrent()
        assertEquals(RegistrationStatus.REFUSED, o.status("secret").status)
        assertEquals(RegistrationStatus.PENDING_REGISTRATION, o.status("busy").status)
        assertTrue("secret REFUSED forbidden" in told && "busy PENDING_REGISTRATION unavailable" in told, "$told")
        s.end()
    }

    @Test
    fun `client and server agree whatever happens`() {
        val first = Random.nextInt(1 shl 30)
        for (seed in first until first + if (thorough) 60 else 10) chaos(seed)
    }

    private fun chaos(seed: Int) = runTest {
        val random = Random(seed)
        val server = ObjectServer(this)
        val storage = MemoryStorage().takeIf { seed % 2 == 0 }
        val wanted = HashSet<String>()
        val top = HashMap<String, Long>() // versions, which only grow, whatever the server forgets
        val seen = HashMap<String, Long>()
        val handler = SignalHandler { s ->
            assertTrue(s.version >= (seen[s.name] ?: 0) || storage == null, "seed $seed: ${s.name} went back")
            seen[s.name] = s.version
        }
        var (s, o) = follow(server) { Objects("site", storage, it.clock, Dispatchers.Unconfined) }
        s.listen(null)
        repeat(150) {
            val name = "o${random.nextInt(12)}"
            when (random.nextInt(12)) {
                0, 1, 2 -> {
                    wanted += name
                    o.register(name, handler = handler)
                }
                3, 4 -> {
                    wanted -= name
                    o.unregister(name)
                }
                5, 6, 7 -> server.put(name, top.merge(name, 1, Long::plus)!!)
                8 -> server.cut()
                9 -> if (random.nextInt(4) == 0) server.wipe()
                10 -> server.latencyMillis = random.nextLong(3) * 400
                11 -> if (random.nextInt(4) == 0) {
                    s.end() // the program starts anew, perhaps with nothing but its state
                    val next = follow(server) { Objects("site", storage, it.clock, Dispatchers.Unconfined) }
                    s = next.first
                    o = next.second
                    for (w in wanted) o.register(w, handler = handler)
                    s.listen(null)
                    o.list().filter { it.name !in wanted }.forEach { o.unregister(it.name) }
                }
            }
            advanceTimeBy(random.nextLong(1_500))
        }
        server.latencyMillis = 0
        advanceTimeBy(900_000)
        assertEquals(wanted, server.registered, "seed $seed")
        assertEquals(wanted, o.list().filter { it.status == RegistrationStatus.REGISTERED }.map { it.name }.toSet(), "seed $seed")
        for (name in wanted) server.put(name, top.merge(name, 1, Long::plus)!!) // a wiped object is put again
        advanceTimeBy(1_000)
        for (name in wanted) assertEquals(top[name], seen[name], "seed $seed: $name")
        s.end()
    }
}
