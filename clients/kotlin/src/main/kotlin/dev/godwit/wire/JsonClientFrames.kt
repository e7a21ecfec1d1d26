package dev.godwit.wire

import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.add
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject
import kotlin.io.encoding.Base64

/** Encodes frames of the subprotocol godwit.v1.json. */
internal object JsonClientFrames {
    fun encode(f: ClientFrame): String = when (f) {
        is ClientFrame.Hello -> frame("hello") {
            text("app", f.app)
            text("token", f.token)
            text("recipient", f.recipient)
            text("group", f.group)
            text("device", f.device)
            text("digest", f.digest)
            if (f.held.isNotEmpty()) list("held", f.held)
            if (f.window != 0) put("window", f.window)
            millis("heartbeat", f.heartbeatMillis)
            if (f.observe) put("observe", true)
        }
        is ClientFrame.Ack -> frame("ack") { list("ids", f.ids) }
        is ClientFrame.Nack -> frame("nack") {
            list("ids", f.ids)
            millis("after", f.afterMillis)
            text("reason", f.reason)
        }
        is ClientFrame.Register -> frame("register") {
            list("objects", f.objects)
            text("group", f.group)
            if (f.reset) put("reset", true)
            if (f.more) put("more", true)
        }
        is ClientFrame.Unregister -> frame("unregister") {
            list("objects", f.objects)
            text("group", f.group)
        }
        is ClientFrame.ObjectAck -> frame("object_ack") {
            text("object", f.name)
            text("group", f.group)
            text("version", f.version.toString())
        }
        is ClientFrame.Subscribe -> queued("subscribe", "topics", f.topics, f.queue)
        is ClientFrame.Unsubscribe -> queued("unsubscribe", "topics", f.topics, f.queue)
        is ClientFrame.Serve -> queued("serve", "subjects", f.subjects, f.queue)
        is ClientFrame.Unserve -> queued("unserve", "subjects", f.subjects, f.queue)
        is ClientFrame.Reply -> frame("reply") { reply(f) }
        is ClientFrame.Ping -> frame("ping") { text("digest", f.digest) }
    }

    private fun queued(name: String, what: String, list: List<String>, queue: String) = frame(name) {
        list(what, list)
        text("queue", queue)
    }

    private fun JsonObjectBuilder.reply(f: ClientFrame.Reply) {
        val a = f.answer
        text("request_id", f.requestId)
        text("id", f.id)
        if (a.status != 0) put("status", a.status)
        val headers = a.headers.filterValues { it.isNotEmpty() }
        if (headers.isNotEmpty()) {
            putJsonObject("headers") {
                for ((name, values) in headers) if (values.size == 1) put(name, values[0]) else list(name, values)
            }
        }
        text("content_type", a.contentType)
        if (a.data.isEmpty()) return
        // JSON must arrive unchanged, so it is sent as bytes, as is text that its escapes make longer.
        val text = a.data.takeIf { a.contentType.isNotEmpty() && !isJsonType(a.contentType) }?.utf8()
        val bytes = Base64.encode(a.data)
        if (text != null && JsonPrimitive(text).toString().length <= bytes.length) put("data", text) else put("data_base64", bytes)
    }

    private fun frame(name: String, members: JsonObjectBuilder.() -> Unit): String = buildJsonObject { putJsonObject(name, members) }.toString()
}

/** Adds a text unless it is empty. */
internal fun JsonObjectBuilder.text(name: String, value: String) {
    if (value.isNotEmpty()) put(name, value.wellFormed())
}

/** Adds a duration unless it is 0. */
internal fun JsonObjectBuilder.millis(name: String, value: Long) {
    if (value != 0L) put(name, "${value}ms")
}

internal fun JsonObjectBuilder.list(name: String, values: List<String>) {
    putJsonArray(name) { for (value in values) add(value.wellFormed()) }
}
