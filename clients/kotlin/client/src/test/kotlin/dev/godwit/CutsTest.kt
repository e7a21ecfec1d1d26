package dev.godwit

import dev.godwit.backend.Publication
import dev.godwit.backend.publishBatch
import dev.godwit.support.Proxy
import dev.godwit.support.Server
import dev.godwit.support.eventually
import dev.godwit.support.thorough
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.parallel.Isolated
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicReference
import kotlin.random.Random
import kotlin.test.assertEquals
import kotlin.test.assertTrue

/** A network that fails while notifications come. Thoroughly: GODWIT_TEST_THOROUGH=1. */
@Isolated
class CutsTest {
    private val cuts = if (thorough) 100 else 6
    private val published = if (thorough) 10_000 else 600

    @Test
    @Timeout(1_200)
    fun `nothing is lost and nothing handled twice however the network fails`() = runBlocking(Dispatchers.Default) {
        val handled = ConcurrentHashMap<String, AtomicInteger>()
        val changed = AtomicReference(Runnable {})
        val welcomed = AtomicReference(CompletableDeferred<Unit>())
        Server.development().use { server ->
            Proxy(server.address).use { network ->
                val backend = server.client()
                val phone = GodwitClient(network.url) {
                    app("demo")
                    networkMonitor { listener ->
                        changed.set(listener)
                        AutoCloseable {}
                    }
                }
                val listener = launch {
                    phone.listen("driver-42", {
                        device = "phone"
                        window = 256
                        events = object : ListenEvents {
                            override fun connected(welcome: Welcome) {
                                welcomed.get().complete(Unit)
                            }

                            override fun disconnected(error: Throwable, retryMillis: Long) {
                                println("$error, again after $retryMillis ms")
                            }
                        }
                    }) { n -> handled.getOrPut(n.id) { AtomicInteger() }.incrementAndGet() }
                }
                val cut = AtomicInteger()
                val publisher = launch {
                    val publications = List(published) { Publication("driver-42").apply { title = "$it" } }
                    for ((i, some) in publications.chunked(published / cuts / 2).withIndex()) {
                        while (i / 2 > cut.get()) delay(10) // two slices for each cut
                        backend.publishBatch(some).forEach { assertEquals(null, it.error) }
                        delay(50)
                    }
                }
                val resumed = ArrayList<Long>()
                val faults = Proxy.Fault.entries
                repeat(cuts) { i ->
                    cut.set(i)
                    welcomed.get().await()
                    delay(Random.nextLong(200))
                    welcomed.set(CompletableDeferred())
                    network.down = true
                    network.fault(faults[i % faults.size])
                    delay(if (thorough && i % 10 == 0) 10_000 else Random.nextLong(300))
                    network.down = false
                    val back = System.nanoTime()
                    changed.get().run() // the device says that there is a network again
                    welcomed.get().await()
                    resumed += (System.nanoTime() - back) / 1_000_000
                }
                publisher.join()
                eventually("all are handled") { handled.size == published }
                listener.cancelAndJoin()
                phone.close()
                backend.close()
                assertTrue(handled.values.all { it.get() == 1 }, "handled twice: ${handled.filterValues { it.get() > 1 }.keys}")
                println(
                    "$cuts cuts, $published notifications: none lost, none twice; sessions resumed within ${resumed.max()} ms, half of them within ${resumed.sorted()[cuts / 2]} ms",
                )
            }
        }
    }
}
