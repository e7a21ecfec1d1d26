package dev.godwit.wire

import dev.godwit.Answer
import okio.Buffer

/** Writes the fields of a protobuf message. Empty ones are left out. */
internal class ProtoWriter : FrameWriter {
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

    override fun text(number: Int, name: String, value: String) = text(number, value)

    override fun texts(number: Int, name: String, values: List<String>) = texts(number, values)

    override fun number(number: Int, name: String, value: Int) = number(number, value.toLong())

    override fun truth(number: Int, name: String, value: Boolean) = truth(number, value)

    override fun millis(number: Int, name: String, value: Long) = number(number, value)

    override fun version(number: Int, name: String, value: Long) = number(number, value)

    override fun answer(answer: Answer) {
        val (once, repeat) = answer.headers.entries.partition { it.value.size == 1 }
        number(3, answer.status.toLong())
        for ((name, values) in once) header(4, name, values[0])
        if (answer.data.isNotEmpty()) bytes(5, answer.data)
        text(6, answer.contentType)
        for ((name, values) in repeat) for (value in values) header(7, name, value)
    }

    private fun header(number: Int, name: String, value: String) = message(number) {
        text(1, name)
        text(2, value)
    }
}

private const val TYPE_BITS = 3
private const val CHUNK = 2L
private const val BITS = 7
private const val MASK = 0x7fL
private const val MORE = 0x80L
