package dev.godwit.support

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import java.io.File

/** The repository, in whose folder clients/kotlin/client the tests run. */
val repository: File = File("../../..").canonicalFile

/** Whether tests may take minutes. */
val thorough: Boolean = System.getenv("GODWIT_TEST_THOROUGH").orEmpty().isNotEmpty()

/** The cases that the server and every client library must pass. */
fun vectors(name: String): List<JsonObject> {
    val file = Json.parseToJsonElement(File(repository, "api/vectors/$name.json").readText()).jsonObject
    return file.getValue("cases").jsonArray.map { it.jsonObject }.also { check(it.isNotEmpty()) { "$name has no cases" } }
}

fun JsonObject.text(name: String): String = this[name]?.jsonPrimitive?.content.orEmpty()

/** What a value is, whatever the order of members and the notation of numbers. */
fun JsonElement.value(): Any? = when (this) {
    is JsonObject -> mapValues { it.value.value() }
    is JsonArray -> map { it.value() }
    is JsonPrimitive -> if (isString) content else content.toBigDecimalOrNull()?.stripTrailingZeros() ?: content
}
