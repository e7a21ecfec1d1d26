package dev.godwit

import dev.godwit.support.Server
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.parallel.Isolated
import java.util.concurrent.CountDownLatch
import kotlin.test.assertTrue

@Isolated
class ThreadsTest {
    @Test
    fun `a connection takes two threads at most`() {
        Server.development().use { server ->
            server.client().use { client ->
                val before = Thread.activeCount()
                val welcomed = CountDownLatch(CONNECTIONS)
                val listening = List(CONNECTIONS) {
                    val options = ListenOptions().apply {
                        events = object : ListenEvents {
                            override fun connected(welcome: Welcome) = welcomed.countDown()
                        }
                    }
                    client.start("driver-$it", options) { _, _ -> }
                }
                welcomed.await()
                val more = Thread.activeCount() - before
                assertTrue(more <= 2 * CONNECTIONS, "$more threads for $CONNECTIONS connections")
                println("$more threads more for $CONNECTIONS connections")
                listening.forEach { it.close() }
            }
        }
    }

    private companion object {
        const val CONNECTIONS = 20
    }
}
