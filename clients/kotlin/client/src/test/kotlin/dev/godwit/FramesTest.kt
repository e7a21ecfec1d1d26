package dev.godwit

import dev.godwit.messaging.wire.ObjectAck
import dev.godwit.messaging.wire.Register
import dev.godwit.messaging.wire.Serve
import dev.godwit.messaging.wire.Subscribe
import dev.godwit.messaging.wire.Unregister
import dev.godwit.messaging.wire.Unserve
import dev.godwit.messaging.wire.Unsubscribe
import dev.godwit.support.text
import dev.godwit.support.value
import dev.godwit.support.vectors
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.decodeFrame
import dev.godwit.wire.durationMillis
import dev.godwit.wire.isJson
import dev.godwit.wire.readContent
import dev.godwit.wire.splitFrame
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory
import java.util.stream.Stream
import kotlin.io.encoding.Base64
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.time.Instant

class FramesTest {
    private fun cases(name: String, only: (JsonObject) -> Boolean = { true }, test: (JsonObject) -> Unit): Stream<DynamicTest> =
        vectors(name).filter(only).map { c -> DynamicTest.dynamicTest(c.text("name")) { test(c) } }.stream()

    @TestFactory
    fun notifications() = cases("notifications") { c ->
        notification(c, decodeFrame(c.getValue("json").toString()))
        notification(c, decodeFrame(Base64.decode(c.text("proto"))))
    }

    private fun notification(c: JsonObject, frame: ServerFrame) {
        val n = assertIs<ServerFrame.Notified>(frame).notification
        val content = c.getValue("content").jsonObject
        assertEquals("ride-9f3", n.id)
        assertEquals(c.text("seq").toLong(), n.seq)
        assertEquals(c.text("attempt").toLong().coerceAtMost(Int.MAX_VALUE.toLong()).toInt(), n.attempt)
        assertEquals(c.text("priority"), n.priority.name.lowercase())
        assertEquals(listOf("title", "body", "category", "content_type").map(content::text), listOf(n.title, n.body, n.category, n.contentType))
        assertEquals(Instant.parse("2026-11-21T00:00:00.123Z"), n.createdAt)
        assertEquals(Instant.parse("2026-11-21T00:00:30.123Z"), n.expiresAt)
        val data = Base64.decode(content.text("data_base64"))
        if (n.contentType.endsWith("json")) {
            assertEquals(Json.parseToJsonElement(data.decodeToString()).value(), Json.parseToJsonElement(n.text).value())
        } else {
            assertEquals(data.toList(), n.data.toList())
        }
    }

    @TestFactory
    fun `server frames`() = cases("server_frames") { c ->
        val (name, want) = c.getValue("json").jsonObject.entries.single()
        val f = decodeFrame(c.getValue("json").toString())
        assertEquals(frameNames[name], f::class.simpleName)
        assertEquals(whole(want.jsonObject), whole(members(f)))
        assertEquals(whole(members(f)), whole(members(decodeFrame(Base64.decode(c.text("proto"))))))
    }

    /** Members that say the same when they are absent are left out. */
    private fun whole(m: Map<String, Any?>): Map<String, Any?> = m.filterValues { it !in listOf("", false, 0L, emptyList<Any>(), null) }

    private fun whole(m: JsonObject): Map<String, Any?> = whole(
        m.mapValues { (name, v) ->
            when (name) {
                "heartbeat", "retry_after" -> durationMillis(m.text(name))
                "registrations", "gap" -> m.text(name).toLong()
                "transient", "unknown" -> m.text(name).toBoolean()
                "headers" -> v.jsonObject.mapValues { (_, value) -> value.value() as? List<*> ?: listOf(value.value()) }
                "data", "payload" -> v.value()
                "unseen", "unread" -> m.text(name).toLong()
                "more" -> m.text(name).toBoolean()
                "inbox" -> whole(v.jsonObject)
                "marked" -> v.jsonArray.map { whole(it.jsonObject) }
                "seen", "read", "archived", "pinned" -> m.text(name).toBoolean()
                else -> v.value()
            }
        },
    )

    private fun members(f: ServerFrame): Map<String, Any?> = when (f) {
        is ServerFrame.Welcomed -> f.welcome.run {
            mapOf(
                "session" to session,
                "app" to app,
                "recipient" to recipient,
                "heartbeat" to heartbeatMillis,
                "server_time" to serverTime.toString(),
                "digest" to digest,
                "registrations" to registrations.toLong(),
                "inbox" to inbox?.let(::news),
            )
        }
        is ServerFrame.InboxChanged -> news(f.news)
        is ServerFrame.Recall -> mapOf("ids" to f.ids)
        is ServerFrame.Registered -> mapOf("objects" to f.objects, "group" to f.group, "digest" to f.digest)
        is ServerFrame.RegistrationFailed -> mapOf("objects" to f.objects, "group" to f.group, "code" to f.code, "transient" to f.transient)
        is ServerFrame.Signalled -> f.signal.run {
            mapOf("group" to group, "object" to name, "version" to if (version == 0L) "" else "$version", "unknown" to unknown) +
                content("payload", payload, contentType)
        }
        is ServerFrame.Messaged -> mapOf("topic" to f.message.topic, "gap" to f.gap.toLong()) + content("data", f.message.data, f.message.contentType)
        is ServerFrame.Requested -> f.request.run {
            mapOf(
                "request_id" to id,
                "subject" to subject,
                "method" to method,
                "path" to path,
                "query" to query,
                "deadline" to deadline.toString(),
                "headers" to headers.ifEmpty { null },
            ) + content("data", data, contentType)
        }
        is ServerFrame.Pong -> mapOf("digest" to f.digest)
        is ServerFrame.Goodbye -> mapOf("reason" to f.reason, "retry_after" to f.retryAfterMillis)
        is ServerFrame.Failed -> mapOf("code" to f.code, "message" to f.message, "field" to f.field, "refused" to f.refused)
        else -> error("$f")
    }

    private fun news(n: InboxNews) = whole(
        mapOf("unseen" to n.unseen.toLong(), "unread" to n.unread.toLong(), "changed" to n.changed, "more" to n.more, "marked" to n.marked.map(::mark)),
    )

    private fun mark(m: InboxMarked) = whole(
        mapOf("id" to m.id, "seen" to m.seen, "read" to m.read, "archived" to m.archived, "pinned" to m.pinned, "answered" to m.answered),
    )

    private fun content(name: String, data: ByteArray, type: String): Map<String, Any?> {
        if (data.isEmpty()) return emptyMap()
        val text = runCatching { data.decodeToString(throwOnInvalidSequence = true) }.getOrNull()
        val parsed = text?.let { runCatching { Json.parseToJsonElement(it).value() }.getOrNull() }
        return when {
            type == "application/json" && parsed != null && isJson(text) -> mapOf(name to parsed)
            type.startsWith("text/") -> mapOf(name to text, "content_type" to type)
            else -> mapOf("${name}_base64" to Base64.encode(data), "content_type" to type)
        }
    }

    private val frameNames = mapOf(
        "welcome" to "Welcomed", "recall" to "Recall", "pong" to "Pong", "goodbye" to "Goodbye", "error" to "Failed", "registered" to "Registered",
        "registration_failed" to "RegistrationFailed", "object" to "Signalled", "message" to "Messaged", "request" to "Requested", "inbox" to "InboxChanged",
    )

    /** What the server must understand is what this client writes of the same frame. */
    @TestFactory
    fun `client frames`() = cases("client_frames", only = { "json" in it && "error" !in it }) { c ->
        val json = c.getValue("json")
        val frame = assertNotNull(clientFrame(json.toString()))
        val written = Json.parseToJsonElement(frame.json())
        assertEquals(normal(json.jsonObject), normal(written.jsonObject))
        assertEquals(c.text("proto"), Base64.encode(frame.proto()))
    }

    /** Durations in milliseconds, versions as text, and data as bytes: notations that say the same. */
    private fun normal(frame: JsonObject): Any {
        val (name, inner) = frame.entries.single()
        val m = inner.jsonObject
        return name to m.mapValues { (member, v) ->
            when (member) {
                "heartbeat", "after" -> durationMillis(m.text(member))
                "version" -> m.text(member)
                "data" -> if (m.text("content_type").startsWith("text/")) m.text(member) else v.toString()
                "data_base64" -> Base64.decode(m.text(member)).decodeToString()
                else -> v.value()
            }
        }.mapKeys { (member, _) -> if (member == "data_base64") "data" else member }.filterValues { it != "application/json" }
    }

    private fun clientFrame(text: String): ClientFrame? {
        val f = splitFrame(text) ?: return null
        return frame(f.name, f.members)
    }

    private fun frame(name: String, m: JsonMembers): ClientFrame? = when (name) {
        "hello" -> ClientFrame.Hello(
            m.string("app"), m.string("token"), m.string("recipient"), m.string("group"), m.string("device"), m.string("digest"), m.strings("held"),
            m.int("window"), m.millis("heartbeat"), m.boolean("observe"),
        )
        "ack" -> ClientFrame.Ack(m.strings("ids"))
        "nack" -> ClientFrame.Nack(m.strings("ids"), m.millis("after"), m.string("reason"))
        "register" -> Register(m.strings("objects"), m.string("group"), m.boolean("reset"), m.boolean("more"))
        "unregister" -> Unregister(m.strings("objects"), m.string("group"))
        "object_ack" -> ObjectAck(m.string("object"), m.string("group"), m.version("version"))
        "subscribe" -> Subscribe(m.strings("topics"), m.string("queue"))
        "unsubscribe" -> Unsubscribe(m.strings("topics"), m.string("queue"))
        "serve" -> Serve(m.strings("subjects"), m.string("queue"))
        "unserve" -> Unserve(m.strings("subjects"), m.string("queue"))
        "reply" -> ClientFrame.Reply(m.string("request_id"), m.string("id"), answer(m))
        "ping" -> ClientFrame.Ping(m.string("digest"))
        else -> null
    }

    private fun answer(m: JsonMembers): Answer {
        val content = readContent(m, "data")
        val headers = m.members("headers")
        val values = headers?.names.orEmpty().associateWith { name -> runCatching { headers!!.strings(name) }.getOrElse { listOf(headers!!.string(name)) } }
        return Answer(content.data, content.type, m.int("status"), values)
    }
}
