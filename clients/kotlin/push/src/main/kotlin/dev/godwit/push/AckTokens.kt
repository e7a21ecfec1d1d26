@file:JvmName("AckTokens")

package dev.godwit.push

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.ServerException
import dev.godwit.http.read
import dev.godwit.wire.list
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/** What happened to a message that came by push. */
public enum class PushEvent {
    /** It is on the screen. It settles only notifications that were published so. */
    SHOWN,

    /** The person opened it, or chose something. */
    CLICKED,

    /** The person took it away. */
    DISMISSED,
}

/**
 * Acknowledges notifications that came by push, with the tokens in their messages (`godwit_ack`). These are the only credential: no client token is
 * needed. It returns the number of copies that it settled; those settled before do not count.
 *
 * @throws ServerException with status 401 if none of the tokens is valid
 */
public suspend fun GodwitClient.ackTokens(event: PushEvent, tokens: List<String>): Int = tokens.chunked(MOST_TOKENS).sumOf { some ->
    val body = buildJsonObject {
        list("tokens", some)
        put("event", event.name.lowercase())
    }
    read(api.call(ApiCall("POST", "acks", body = body.toString()), bearer = "")) { it.int("acked") }
}

private const val MOST_TOKENS = 100 // in one request
