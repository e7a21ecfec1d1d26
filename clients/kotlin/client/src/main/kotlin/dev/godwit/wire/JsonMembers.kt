package dev.godwit.wire

import kotlinx.serialization.json.JsonPrimitive
import kotlin.io.encoding.Base64
import kotlin.time.Instant

/** What is wrong with one member of a frame. It has no part of the member's value, since it is logged. */
internal class MemberException(val member: String, val what: String) : Exception("$member: $what")

/**
 * The members of an object in JSON, each as its text. A member is examined when it is asked for, so that those which this client does not
 * know may have any value.
 */
internal class JsonMembers(private val members: Map<String, String>) : FrameReader {
    /** The text of a member; null: it is absent or `null`. */
    fun raw(name: String): String? {
        val text = members[name] ?: return null
        if (!isJson(text)) throw MemberException(name, "is not JSON")
        return text.takeUnless { it == "null" }
    }

    fun has(name: String): Boolean = members.containsKey(name)

    fun string(name: String): String {
        val text = raw(name) ?: return ""
        return JsonScanner(text).string() ?: throw wrongType(name)
    }

    fun boolean(name: String): Boolean = when (raw(name)) {
        null, "false" -> false
        "true" -> true
        else -> throw wrongType(name)
    }

    /** A whole number from [least] to 2^63-1; 0 if it is absent. */
    fun long(name: String, least: Long = 0): Long {
        val text = raw(name) ?: return 0
        return text.toLongOrNull()?.takeIf { it >= least } ?: throw wrongType(name)
    }

    /** A whole number; one that is larger than any Int is Int.MAX_VALUE. */
    fun int(name: String): Int = long(name).coerceAtMost(Int.MAX_VALUE.toLong()).toInt()

    /** A version: a string or a number from 1 to 2^63-1; 0 if there is none. */
    fun version(name: String): Long {
        val text = raw(name)?.removeSurrounding("\"") ?: return 0
        if (text == "0") return 0
        if (text.isEmpty() || text[0] !in '1'..'9') throw wrongType(name)
        return text.toLongOrNull() ?: throw wrongType(name)
    }

    fun bytes(name: String): ByteArray? {
        if (raw(name) == null) return null
        return try {
            Base64.decode(string(name))
        } catch (_: IllegalArgumentException) {
            throw MemberException(name, "is not base64")
        }
    }

    /** A time, which RFC 3339 has from the year 1 to 9999; null: it is absent. */
    fun time(name: String): Instant? {
        if (raw(name) == null) return null
        return instantOf(string(name)) ?: throw MemberException(name, "is not a time as RFC 3339 has it")
    }

    fun millis(name: String): Long {
        val text = raw(name) ?: return 0
        return durationMillis(text.removeSurrounding("\"")) ?: throw MemberException(name, "is no duration")
    }

    /** A list of strings; empty if it is absent. */
    fun strings(name: String): List<String> = texts(name).map { JsonScanner(it).string() ?: throw wrongType(name) }

    /** The elements of a list, each as its text; empty if it is absent. */
    fun texts(name: String): List<String> {
        val scanner = JsonScanner(raw(name) ?: return emptyList())
        if (!scanner.take('[')) throw wrongType(name)
        val list = ArrayList<String>()
        while (!scanner.take(']')) {
            list += scanner.anything() ?: throw wrongType(name)
            scanner.take(',')
        }
        return list
    }

    fun members(name: String): JsonMembers? = raw(name)?.let { membersIn(it, name) }

    /** A list of objects; empty if it is absent. */
    fun objects(name: String): List<JsonMembers> = texts(name).map { membersIn(it, name) }

    private fun membersIn(text: String, name: String): JsonMembers = membersOf(text) ?: throw wrongType(name)

    val names: Set<String> get() = members.keys

    override fun string(number: Int, name: String) = string(name)

    override fun strings(number: Int, name: String) = strings(name)

    override fun boolean(number: Int, name: String) = boolean(name)

    override fun int(number: Int, name: String) = int(name)

    override fun long(number: Int, name: String) = long(name)

    override fun millis(number: Int, name: String) = millis(name)

    override fun version(number: Int, name: String) = version(name)

    override fun time(number: Int, name: String) = time(name)

    override fun choice(number: Int, name: String, of: List<String>) = string(name)

    override fun message(number: Int, name: String) = members(name)

    override fun messages(number: Int, name: String) = objects(name)

    override fun content(number: Int, name: String, type: Int, checked: Boolean) = readContent(this, name)

    /** Each header is a text, or several. */
    override fun headers(name: String, vararg numbers: Int): Map<String, List<String>> {
        val headers = members(name) ?: return emptyMap()
        return headers.names.associateWith {
            try {
                if (headers.raw(it).orEmpty().startsWith('[')) headers.strings(it) else listOf(headers.string(it))
            } catch (_: MemberException) {
                throw MemberException(name, "are no texts")
            }
        }
    }

    /** The object as it came, but for white space. */
    val json: String get() = members.entries.joinToString(",", "{", "}") { (name, value) -> "${JsonPrimitive(name)}:$value" }

    private fun wrongType(name: String) = MemberException(name, "is of the wrong type or out of range")
}

/** A frame in JSON: an object whose one member is an object. [whole] is false where the text breaks off or goes on behind it. */
internal class SplitFrame(val name: String, val members: JsonMembers, val whole: Boolean)

/** Splits a frame as far as it can be understood; null: it is no frame. */
internal fun splitFrame(text: String): SplitFrame? {
    val scanner = JsonScanner(text)
    if (!scanner.take('{')) return null
    scanner.skipSpace()
    val name = scanner.string() ?: return null
    if (!scanner.take(':') || !scanner.next('{')) return SplitFrame(name, JsonMembers(emptyMap()), whole = false)
    val members = LinkedHashMap<String, String>()
    val whole = scanner.splitInto(members) && scanner.take('}') && scanner.atEnd()
    return SplitFrame(name, JsonMembers(members), whole)
}

/** The members of a text that is an object; null: it is none. */
internal fun membersOf(text: String): JsonMembers? {
    val members = LinkedHashMap<String, String>()
    val scanner = JsonScanner(text)
    return if (scanner.splitInto(members) && scanner.atEnd()) JsonMembers(members) else null
}

/** Adds the members of an object to a map. False: the object breaks off, and the map has what came before. */
private fun JsonScanner.splitInto(members: MutableMap<String, String>): Boolean {
    if (!take('{')) return false
    while (!take('}')) {
        skipSpace()
        val name = string()
        if (name == null || !take(':')) return false
        members[name] = anything() ?: return false
        if (!take(',') && !next('}')) return false
    }
    return true
}

/** Reads a time as RFC 3339 has it; null: it is none. */
internal fun instantOf(text: String): Instant? {
    val fourDigits = text.length > YEAR_DIGITS && text[YEAR_DIGITS] == '-' && (0 until YEAR_DIGITS).all { text[it] in '0'..'9' }
    return if (fourDigits) Instant.parseOrNull(text) else null
}

private const val YEAR_DIGITS = 4
