@file:JvmName("Asking")

package dev.godwit.backend

import dev.godwit.Answer
import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.ServerException
import dev.godwit.wire.requireName
import dev.godwit.wire.requirePattern

/**
 * Sends a request to one of the workers that serve a subject (role publish) and returns its answer, whatever its status. It is sent only once.
 *
 * @param timeoutMillis how long to wait for an answer, at most 60 s
 * @throws ServerException if there is no answer: [ServerException.nobodyServes] or [ServerException.noAnswer] says why
 */
@JvmOverloads
public suspend fun GodwitClient.ask(subject: String, data: ByteArray, contentType: String = "", timeoutMillis: Long = USUAL_WAIT): Answer {
    requirePattern(subject)
    return api.ask(ApiCall("POST", "requests", subject, query = mapOf("timeout" to "${timeoutMillis}ms")), data, contentType, timeoutMillis)
}

/** Sends a request to a connected client of a recipient: the newest, or that of a device. */
@JvmOverloads
public suspend fun GodwitClient.askRecipient(
    recipient: String,
    data: ByteArray,
    contentType: String = "",
    timeoutMillis: Long = USUAL_WAIT,
    device: String = "",
    subject: String = "",
): Answer {
    requireName("ask: recipient", recipient)
    val query = mapOf("timeout" to "${timeoutMillis}ms", "device" to device.ifEmpty { null }, "subject" to subject.ifEmpty { null })
    return api.ask(ApiCall("POST", "recipients", recipient, "requests", query = query), data, contentType, timeoutMillis)
}

private const val USUAL_WAIT = 5_000L

/** Sends a message of at most 64 KB to the topic's present subscribers: at most once, so it is not retried. It is not told who got it. */
@JvmOverloads
public suspend fun GodwitClient.publishMessage(topic: String, data: ByteArray, contentType: String = "") {
    requirePattern(topic)
    val content = contentOf("message", data, contentType)
    val type = content.type.ifEmpty { if (data.isEmpty()) "" else "application/json" }
    api.once(ApiCall("POST", "topics", topic), body(data, type))
}
