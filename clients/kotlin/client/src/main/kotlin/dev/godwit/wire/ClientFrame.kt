package dev.godwit.wire

import dev.godwit.Answer
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.putJsonObject

/** A frame to the server: in JSON it has this [name], in protobuf this [number] of client.proto. Two frames are equal if they say the same. */
internal abstract class ClientFrame(private val number: Int, private val name: String) {
    /** Writes the members, each with its number and its name. */
    protected abstract fun writeTo(out: FrameWriter)

    /** The frame of the subprotocol godwit.v1.json. */
    fun json(): String = buildJsonObject { putJsonObject(name) { writeTo(JsonWriter(this)) } }.toString()

    /** The frame of the subprotocol godwit.v1.proto. */
    fun proto(): ByteArray = ProtoWriter().apply { message(number) { writeTo(this) } }.toByteArray()

    override fun equals(other: Any?): Boolean = other is ClientFrame && json() == other.json()

    override fun hashCode(): Int = json().hashCode()

    override fun toString(): String = json()

    class Hello(
        private val app: String = "",
        val token: String = "",
        private val recipient: String = "",
        private val group: String = "",
        private val device: String = "",
        private val digest: String = "",
        private val held: List<String> = emptyList(),
        private val window: Int = 0,
        private val heartbeatMillis: Long = 0,
        private val observe: Boolean = false,
    ) : ClientFrame(1, "hello") {
        override fun writeTo(out: FrameWriter) {
            out.text(1, "app", app)
            out.text(2, "token", token)
            out.text(3, "recipient", recipient)
            out.text(4, "group", group)
            out.text(5, "device", device)
            out.text(6, "digest", digest)
            if (held.isNotEmpty()) out.texts(7, "held", held)
            out.number(8, "window", window)
            out.millis(9, "heartbeat", heartbeatMillis)
            out.truth(10, "observe", observe)
        }

        /** Does not print the token. */
        override fun toString(): String = "Hello(app=$app, recipient=$recipient, group=$group, device=$device)"
    }

    class Ack(val ids: List<String>) : ClientFrame(2, "ack") {
        override fun writeTo(out: FrameWriter) = out.texts(1, "ids", ids)
    }

    class Nack(val ids: List<String>, val afterMillis: Long = 0, val reason: String = "") : ClientFrame(3, "nack") {
        override fun writeTo(out: FrameWriter) {
            out.texts(1, "ids", ids)
            out.millis(2, "after", afterMillis)
            out.text(3, "reason", reason)
        }
    }

    /** Answers the request [requestId], or the notification [id]. */
    class Reply(private val requestId: String, private val id: String, val answer: Answer) : ClientFrame(11, "reply") {
        override fun writeTo(out: FrameWriter) {
            out.text(1, "request_id", requestId)
            out.text(2, "id", id)
            out.answer(answer)
        }
    }

    class Ping(private val digest: String = "") : ClientFrame(12, "ping") {
        override fun writeTo(out: FrameWriter) = out.text(1, "digest", digest)
    }
}

/** Writes the members of a frame: in JSON by name, in protobuf by number. Empty ones are left out, but for lists in JSON. */
internal interface FrameWriter {
    fun text(number: Int, name: String, value: String)

    fun texts(number: Int, name: String, values: List<String>)

    fun number(number: Int, name: String, value: Int)

    fun truth(number: Int, name: String, value: Boolean)

    fun millis(number: Int, name: String, value: Long)

    fun version(number: Int, name: String, value: Long)

    /** The members of a reply that say what the answer is. */
    fun answer(answer: Answer)
}
