package dev.godwit.wire

import dev.godwit.Answer
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.add
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject
import kotlin.io.encoding.Base64

/** Writes the members of a frame into an object in JSON. */
internal class JsonWriter(private val json: JsonObjectBuilder) : FrameWriter {
    override fun text(number: Int, name: String, value: String) = json.text(name, value)

    override fun texts(number: Int, name: String, values: List<String>) = json.list(name, values)

    override fun number(number: Int, name: String, value: Int) {
        if (value != 0) json.put(name, value)
    }

    override fun truth(number: Int, name: String, value: Boolean) {
        if (value) json.put(name, true)
    }

    override fun millis(number: Int, name: String, value: Long) = json.millis(name, value)

    override fun version(number: Int, name: String, value: Long) = json.text(name, value.toString())

    override fun answer(answer: Answer) {
        number(3, "status", answer.status)
        val headers = answer.headers.filterValues { it.isNotEmpty() }
        if (headers.isNotEmpty()) {
            json.putJsonObject("headers") {
                for ((name, values) in headers) if (values.size == 1) put(name, values[0]) else list(name, values)
            }
        }
        json.text("content_type", answer.contentType)
        if (answer.data.isEmpty()) return
        // JSON must arrive unchanged, so it is sent as bytes, as is text that its escapes make longer.
        val text = answer.data.takeIf { answer.contentType.isNotEmpty() && !isJsonType(answer.contentType) }?.utf8()
        val bytes = Base64.encode(answer.data)
        if (text != null && JsonPrimitive(text).toString().length <= bytes.length) json.put("data", text) else json.put("data_base64", bytes)
    }
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
