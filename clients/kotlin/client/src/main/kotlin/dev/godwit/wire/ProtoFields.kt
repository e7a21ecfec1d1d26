package dev.godwit.wire

import kotlin.time.Instant

/**
 * The fields of a protobuf message. A field is examined when it is asked for. [whole] is false where the bytes break off or are no protobuf; the
 * fields are then those before.
 */
internal class ProtoFields(private val bytes: ByteArray, from: Int, to: Int) : FrameReader {
    private class Field(val number: Int, val varint: Long, val from: Int, val to: Int) // from -1: a varint

    private val fields = ArrayList<Field>()
    private var at = from
    private val end = minOf(to, bytes.size)

    val whole: Boolean = readAll() && to <= bytes.size

    constructor(bytes: ByteArray) : this(bytes, 0, bytes.size)

    private fun readAll(): Boolean {
        while (at < end) if (!readOne()) return false
        return true
    }

    private fun readOne(): Boolean {
        val tag = readVarint() ?: return false
        val number = (tag ushr TYPE_BITS).toInt()
        if (number < 1) return false
        when ((tag and TYPE).toInt()) {
            VARINT -> fields += Field(number, readVarint() ?: return false, -1, -1)
            FIXED64 -> at += Long.SIZE_BYTES
            FIXED32 -> at += Int.SIZE_BYTES
            CHUNK -> {
                val size = readVarint() ?: return false
                val rest = end - at
                // A message that breaks off is kept as far as it goes.
                val taken = if (size in 0..rest) size.toInt() else rest
                fields += Field(number, 0, at, at + taken)
                at += taken
                return size == taken.toLong()
            }
            else -> return false
        }
        return at <= end
    }

    private fun readVarint(): Long? {
        var value = 0L
        for (shift in 0 until Long.SIZE_BITS step VARINT_BITS) {
            if (at >= end) return null
            val byte = bytes[at++].toInt()
            value = value or ((byte and VARINT_MASK).toLong() shl shift)
            if (byte >= 0) return value
        }
        return null
    }

    /** The number of the last field that is a message; 0: there is none. */
    val lastMessage: Int get() = fields.lastOrNull { it.from >= 0 }?.number ?: 0

    private fun last(number: Int, chunk: Boolean) = fields.lastOrNull { it.number == number && (it.from >= 0) == chunk }

    fun long(number: Int): Long = last(number, chunk = false)?.varint ?: 0

    /** A number of 32 bits without a sign; one that is larger than any Int is Int.MAX_VALUE. */
    fun int(number: Int): Int = (long(number) and UINT).coerceAtMost(Int.MAX_VALUE.toLong()).toInt()

    fun bytes(number: Int): ByteArray = last(number, chunk = true)?.let { bytes.copyOfRange(it.from, it.to) } ?: ByteArray(0)

    override fun string(number: Int, name: String): String = text(last(number, chunk = true) ?: return "", name)

    override fun strings(number: Int, name: String): List<String> = chunks(number).map { text(it, name) }

    private fun chunks(number: Int) = fields.filter { it.number == number && it.from >= 0 }

    private fun text(f: Field, name: String): String = try {
        bytes.decodeToString(f.from, f.to, throwOnInvalidSequence = true)
    } catch (_: CharacterCodingException) {
        throw MemberException(name, "is not UTF-8")
    }

    fun messages(number: Int): List<ProtoFields> = chunks(number).map { ProtoFields(bytes, it.from, it.to) }

    fun message(number: Int): ProtoFields? = messages(number).lastOrNull()

    override fun boolean(number: Int, name: String) = long(number) != 0L

    override fun int(number: Int, name: String) = int(number)

    override fun long(number: Int, name: String) = long(number)

    override fun millis(number: Int, name: String) = long(number)

    override fun version(number: Int, name: String) = long(number)

    override fun time(number: Int, name: String): Instant? {
        val millis = long(number)
        if (millis !in EARLIEST..LATEST) throw MemberException(name, "is outside the years 1 to 9999")
        return if (millis == 0L) null else Instant.fromEpochMilliseconds(millis)
    }

    override fun choice(number: Int, name: String, of: List<String>) = of.getOrElse(int(number)) { "" }

    override fun message(number: Int, name: String) = message(number)

    override fun messages(number: Int, name: String) = messages(number)

    override fun content(number: Int, name: String, type: Int, checked: Boolean): Content {
        val content = Content(bytes(number), string(type, "content_type"))
        if (checked && content.data.isNotEmpty() && (content.type.isEmpty() || isJsonType(content.type))) {
            val text = content.data.utf8() ?: throw MemberException(name, "is not UTF-8")
            if (!isJson(text)) throw MemberException(name, "is not JSON")
        }
        return content
    }

    override fun headers(name: String, vararg numbers: Int): Map<String, List<String>> =
        numbers.flatMap { messages(it) }.groupBy({ it.string(1, name) }, { it.string(2, name) })
}

private const val TYPE_BITS = 3
private const val TYPE = 7L
private const val VARINT = 0
private const val FIXED64 = 1
private const val CHUNK = 2
private const val FIXED32 = 5
private const val VARINT_BITS = 7
private const val VARINT_MASK = 0x7f
private const val UINT = 0xffff_ffffL
private const val EARLIEST = -62_135_596_800_000L // 0001-01-01T00:00:00Z
private const val LATEST = 253_402_300_799_999L // 9999-12-31T23:59:59.999Z
