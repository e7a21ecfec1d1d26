package dev.godwit.backend

import dev.godwit.wire.Content
import dev.godwit.wire.isJson
import dev.godwit.wire.isJsonType
import dev.godwit.wire.text
import dev.godwit.wire.utf8
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.JsonUnquotedLiteral
import kotlinx.serialization.json.put
import kotlin.io.encoding.Base64

/** The type of data for which a program named none, checked where it named one. */
internal fun contentOf(what: String, data: ByteArray, contentType: String): Content {
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

/** Adds data as the member [name] or [name]_base64, and its type. */
@OptIn(ExperimentalSerializationApi::class)
internal fun JsonObjectBuilder.content(name: String, content: Content) {
    if (content.data.isEmpty()) return
    val text = content.data.utf8()
    when {
        text == null -> put("${name}_base64", Base64.encode(content.data))
        content.type.isEmpty() || isJsonType(content.type) -> put(name, JsonUnquotedLiteral(text))
        else -> put(name, text)
    }
    text("content_type", content.type)
}
