package dev.godwit.wire

import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.JsonUnquotedLiteral
import kotlinx.serialization.json.put
import kotlin.io.encoding.Base64

internal const val JSON_TYPE = "application/json"

internal fun isJsonType(contentType: String): Boolean {
    val base = contentType.substringBefore(';').trim()
    return base == JSON_TYPE || base.endsWith("+json")
}

/** Data with its type, as it stands in frames and in the HTTP API: JSON as it is, text as a string, anything else as base64. */
internal class Content(val data: ByteArray, val type: String) {
    /** Adds the data as the member [name] or [name]_base64, and its type. */
    @OptIn(ExperimentalSerializationApi::class)
    fun addTo(json: JsonObjectBuilder, name: String) {
        if (data.isEmpty()) return
        val text = data.utf8()
        when {
            text == null -> json.put("${name}_base64", Base64.encode(data))
            type.isEmpty() || isJsonType(type) -> json.put(name, JsonUnquotedLiteral(text))
            else -> json.put(name, text)
        }
        json.text("content_type", type)
    }

    companion object {
        /** Reads the members [name] and [name]_base64. */
        fun read(members: JsonMembers, name: String): Content {
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

        /** The type of data for which a program named none, checked where it named one. */
        fun of(what: String, data: ByteArray, contentType: String): Content {
            if (data.isEmpty()) return Content(data, contentType)
            val text = data.utf8()
            val json = text != null && isJson(text)
            require(contentType.isEmpty() || !isJsonType(contentType) || json) { "$what is not valid JSON although its content type is $contentType" }
            val type = when {
                contentType.isNotEmpty() || json -> contentType
                text != null -> "text/plain; charset=utf-8"
                else -> "application/octet-stream"
            }
            return Content(data, type)
        }

        private const val LONGEST_TYPE = 100
    }
}

/** These bytes as text; null: they are not UTF-8. */
internal fun ByteArray.utf8(): String? = try {
    decodeToString(throwOnInvalidSequence = true)
} catch (_: CharacterCodingException) {
    null
}
