package dev.godwit

import dev.godwit.backend.awaitSettled
import dev.godwit.backend.publish
import dev.godwit.support.Server
import dev.godwit.support.listening
import dev.godwit.support.realTime
import org.junit.jupiter.api.Test
import java.io.File
import java.nio.file.Files
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue

class RestartTest {
    @Test
    fun `a listener outlives a restart and a kill of the server`() = realTime {
        Server.development().use { server ->
            server.client().use { client ->
                listening(client, "a") { got ->
                    got.welcomes.receive()
                    client.publish("a") { title = "before" }
                    assertEquals("before", got.notifications.receive().title)
                    server.stop()
                    server.start()
                    client.publish("a") { title = "after" }
                    assertEquals("after", got.notifications.receive().title)
                    assertTrue("shutdown" in got.disconnects.receive().message.orEmpty())
                    server.kill()
                    server.start()
                    val last = client.publish("a") { title = "last" }
                    assertEquals("last", got.notifications.receive().title)
                    assertEquals("acked", client.awaitSettled(last.id, "a").status)
                }
            }
        }
    }

    @Test
    fun `listening outside development needs a token`() = realTime {
        val key = Files.createTempFile("godwit-kotlin-key-", "").toFile()
        key.writeText("a-key-that-is-long-enough\n")
        Server("--bootstrap-app", "rides", "--bootstrap-key-file", key.path).use { server ->
            val refused = listOf<GodwitClient.Builder.() -> Unit>({ apiKey("a-key-that-is-long-enough") }, { token("nonsense") })
            for (configure in refused) {
                val e = assertFailsWith<RefusedException> { GodwitClient(server.url, configure).listen("a") {} }
                assertEquals("unauthenticated", e.reason)
            }
        }
        File(key.path).delete()
    }
}
