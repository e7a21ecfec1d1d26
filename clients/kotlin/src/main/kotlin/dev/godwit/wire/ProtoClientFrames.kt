package dev.godwit.wire

import okio.Buffer

/** Encodes frames of the subprotocol godwit.v1.proto, whose numbers are those of client.proto. */
internal object ProtoClientFrames {
    fun encode(f: ClientFrame): ByteArray = when (f) {
        is ClientFrame.Hello -> frame(1) { hello(f) }
        is ClientFrame.Ack -> frame(2) { texts(1, f.ids) }
        is ClientFrame.Nack -> frame(3) {
            texts(1, f.ids)
            number(2, f.afterMillis)
            text(3, f.reason)
        }
        is ClientFrame.Register -> frame(4) {
            texts(1, f.objects)
            text(2, f.group)
            truth(3, f.reset)
            truth(4, f.more)
        }
        is ClientFrame.Unregister -> queued(5, f.objects, f.group)
        is ClientFrame.ObjectAck -> frame(6) {
            text(1, f.name)
            text(2, f.group)
            number(3, f.version)
        }
        is ClientFrame.Subscribe -> queued(7, f.topics, f.queue)
        is ClientFrame.Unsubscribe -> queued(8, f.topics, f.queue)
        is ClientFrame.Serve -> queued(9, f.subjects, f.queue)
        is ClientFrame.Unserve -> queued(10, f.subjects, f.queue)
        is ClientFrame.Reply -> frame(11) { reply(f) }
        is ClientFrame.Ping -> frame(12) { text(1, f.digest) }
    }

    private fun ProtoWriter.hello(f: ClientFrame.Hello) {
        text(1, f.app)
        text(2, f.token)
        text(3, f.recipient)
        text(4, f.group)
        text(5, f.device)
        text(6, f.digest)
        texts(7, f.held)
        number(8, f.window.toLong())
        number(9, f.heartbeatMillis)
        truth(10, f.observe)
    }

    private fun ProtoWriter.reply(f: ClientFrame.Reply) {
        val (once, repeat) = f.answer.headers.entries.partition { it.value.size == 1 }
        text(1, f.requestId)
        text(2, f.id)
        number(3, f.answer.status.toLong())
        for ((name, values) in once) header(4, name, values[0])
        if (f.answer.data.isNotEmpty()) bytes(5, f.answer.data)
        text(6, f.answer.contentType)
        for ((name, values) in repeat) for (value in values) header(7, name, value)
    }

    private fun ProtoWriter.header(number: Int, name: String, value: String) = message(number) {
        text(1, name)
        text(2, value)
    }

    private fun queued(number: Int, list: List<String>, queue: String) = frame(number) {
        texts(1, list)
        text(2, queue)
    }

    private fun frame(number: Int, fields: ProtoWriter.() -> Unit): ByteArray = ProtoWriter().apply { message(number, fields) }.toByteArray()
}

/** Writes the fields of a protobuf message. Empty ones are left out. */
internal class ProtoWriter {
    private val out = Buffer()

    fun number(field: Int, value: Long) {
        if (value == 0L) return
        varint(field.toLong() shl TYPE_BITS)
        varint(value)
    }

    /** A choice of which "no" is not the same as nothing. */
    fun choice(field: Int, value: Boolean) {
        varint(field.toLong() shl TYPE_BITS)
        varint(if (value) 1 else 0)
    }

    fun truth(field: Int, value: Boolean) = number(field, if (value) 1 else 0)

    fun text(field: Int, value: String) {
        if (value.isNotEmpty()) bytes(field, value.wellFormed().encodeToByteArray())
    }

    fun texts(field: Int, values: List<String>) {
        for (value in values) bytes(field, value.wellFormed().encodeToByteArray())
    }

    fun message(field: Int, fields: ProtoWriter.() -> Unit) = bytes(field, ProtoWriter().apply(fields).toByteArray())

    fun bytes(field: Int, value: ByteArray) {
        varint(field.toLong() shl TYPE_BITS or CHUNK)
        varint(value.size.toLong())
        out.write(value)
    }

    private fun varint(value: Long) {
        var left = value
        while (left ushr BITS != 0L) {
            out.writeByte((left and MASK or MORE).toInt())
            left = left ushr BITS
        }
        out.writeByte(left.toInt())
    }

    fun toByteArray(): ByteArray = out.readByteArray()

    private companion object {
        const val TYPE_BITS = 3
        const val CHUNK = 2L
        const val BITS = 7
        const val MASK = 0x7fL
        const val MORE = 0x80L
    }
}
