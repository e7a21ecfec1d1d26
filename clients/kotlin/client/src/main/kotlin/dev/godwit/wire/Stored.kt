package dev.godwit.wire

import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.addJsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.putJsonArray
import java.io.IOException

/** Reads a stored document; null: it cannot be understood. A document of a later program than [format] is an exception: it is left alone. */
internal fun <T : Any> readStored(content: ByteArray, format: Int, what: () -> String, read: (JsonMembers) -> T): T? {
    val text = content.utf8()?.takeIf(::isJson) ?: return null
    val m = membersOf(text) ?: return null
    return try {
        val later = m.int("format") > format
        if (later) throw IOException("read ${what()}: it was written by a later version of this program")
        read(m)
    } catch (_: MemberException) {
        null
    }
}

/** A document to be stored. */
internal fun stored(members: JsonObjectBuilder.() -> Unit): ByteArray = buildJsonObject(members).toString().encodeToByteArray()

/** Adds a list of objects. */
internal fun <T> JsonObjectBuilder.objects(name: String, list: List<T>, add: JsonObjectBuilder.(T) -> Unit) {
    putJsonArray(name) { for (each in list) addJsonObject { add(each) } }
}

/** A text that must be there. */
internal fun JsonMembers.needed(name: String): String = string(name).ifEmpty { throw MemberException(name, "is absent") }
