package dev.godwit.wire

internal const val JSON_TYPE = "application/json"

internal fun isJsonType(contentType: String): Boolean {
    val base = contentType.substringBefore(';').trim()
    return base == JSON_TYPE || base.endsWith("+json")
}

/** Data with its type, as it stands in frames and in the HTTP API: JSON as it is, text as a string, anything else as base64. */
internal class Content(val data: ByteArray, val type: String)

/** Reads the members [name] and [name]_base64. */
internal fun readContent(members: JsonMembers, name: String): Content {
    val type = members.string("content_type")
    val bytes = members.bytes("${name}_base64")
    val raw = members.raw(name)
    return when {
        bytes != null -> Content(bytes, type)
        raw == null -> Content(ByteArray(0), type)
        type.isEmpty() -> Content(raw.encodeToByteArray(), JSON_TYPE) // the usual type is omitted
        isJsonType(type) -> Content(raw.encodeToByteArray(), type)
        !raw.startsWith('"') -> throw MemberException(name, "is not text although its content type is ${type.take(LONGEST_TYPE)}")
        else -> Content(members.string(name).encodeToByteArray(), type)
    }
}

private const val LONGEST_TYPE = 100

/** These bytes as text; null: they are not UTF-8. */
internal fun ByteArray.utf8(): String? = try {
    decodeToString(throwOnInvalidSequence = true)
} catch (_: CharacterCodingException) {
    null
}
