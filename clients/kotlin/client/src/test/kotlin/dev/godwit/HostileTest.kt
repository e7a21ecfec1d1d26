package dev.godwit

import dev.godwit.messaging.Objects
import dev.godwit.messaging.objects
import dev.godwit.messaging.wire.ObjectAck
import dev.godwit.support.Script
import dev.godwit.support.text
import dev.godwit.support.vectors
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.decodeFrame
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runTest
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonPrimitive
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import java.util.stream.Stream
import kotlin.io.encoding.Base64
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue

/** Whatever a server or a publisher sends, the client handles the next frame on the same connection. */
@OptIn(ExperimentalCoroutinesApi::class)
class HostileTest {
    private fun frame(c: JsonObject): ServerFrame = if ("proto" in
        c
    ) {
        decodeFrame(Base64.decode(c.text("proto")))
    } else {
        decodeFrame(c.getValue("json").jsonArray.joinToString("", transform = ::piece))
    }

    private fun piece(p: JsonElement) = if (p is JsonArray) p[0].jsonPrimitive.content.repeat(p[1].jsonPrimitive.int) else p.jsonPrimitive.content

    /** OkHttp hands text that is not UTF-8 out with U+FFFD in it, so the cases with bytes do not apply. */
    @TestFactory
    fun vectors(): Stream<DynamicTest> = vectors("hostile").filter { "bytes" !in it }.map { c -> DynamicTest.dynamicTest(c.text("name")) { play(c) } }.stream()

    private fun play(c: JsonObject) = runTest {
        val told = ArrayList<Throwable>()
        val handled = ArrayList<String>()
        val s = Script(this)
        s.options.events = object : ListenEvents {
            override fun failed(error: Throwable) {
                told += error
            }
        }
        s.options.objects = Objects("site", null, s.clock).apply { register("hostile", "behind") {} }
        s.listen { n -> handled += n.id }
        s.last.say(frame(c))
        s.last.say(decodeFrame("""{"notification":{"id":"behind","seq":2,"data":{"ok":true}}}"""))
        s.last.say(decodeFrame("""{"object":{"group":"site","object":"behind","version":"1"}}"""))
        advanceTimeBy(1_000)

        assertEquals(1, s.connections.size)
        val objects = s.last.sent.filterIsInstance<ObjectAck>().map { it.name }
        val nacks = s.last.nacks()
        val acks = s.last.acks()
        assertTrue("behind" in acks && "behind" in objects, "what was behind was not acknowledged")
        val kind = c.text("kind")
        val good = "hostile" in if (kind == "object") objects else acks
        val want = if (c.text("want") != "either") {
            c.text("want")
        } else if (good) {
            "handled"
        } else if (kind == "object") {
            "skipped"
        } else {
            "nacked"
        }
        assertEquals(want == "handled", good, "told $told")
        assertEquals(want == "handled" && kind != "object", "hostile" in handled)
        assertEquals(if (want == "nacked") listOf(listOf("hostile")) else emptyList(), nacks.map { it.ids })
        if (want == "handled") {
            assertEquals(emptyList(), told)
        } else if (c.text("reason").isNotEmpty()) {
            val reason = assertIs<UndecodableException>(told.single()).reason
            assertTrue(reason.startsWith(c.text("reason") + ": "), reason)
            if (want == "nacked") assertEquals(reason, nacks.single().reason)
        }
        s.end()
    }

    @Test
    fun `what cannot be read is asked for later each time`() {
        for ((attempt, pause) in mapOf("1" to 10L, "2" to 20L, "5" to 160L, "6" to 300L, "4000000000" to 300L, "null" to 300L)) {
            val f = decodeFrame("""{"notification":{"id":"a","title":7,"attempt":$attempt}}""")
            assertEquals(pause * 1000, assertIs<ServerFrame.Undecodable>(f).error.pauseMillis, "attempt $attempt")
        }
    }
}
