@file:JvmName("Endpoints")

package dev.godwit.push

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.http.fetch
import dev.godwit.wire.list
import dev.godwit.wire.requireName
import dev.godwit.wire.text
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.json.JsonUnquotedLiteral
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject

/** A push address to be registered. Registering a known address renews it: the given fields replace the stored ones. */
public class Endpoint @JvmOverloads constructor(
    /** `webpush`, `fcm` or `apns`; from a back end also `telegram` and `webhook`. */
    public val channel: String,
    /** JSON, as the channel has it: `{"token":"…"}` for `fcm`. */
    public val address: String,
    /** The recipient; empty: an anonymous subscriber. */
    public val recipient: String = "",
) {
    /** For audiences. */
    public var tags: List<String> = emptyList()

    /** For audiences and templates. */
    public var attributes: Map<String, String> = emptyMap()

    /** BCP 47. */
    public var locale: String = ""

    /** As in the tz database: `Europe/Oslo`. */
    public var timezone: String = ""
}

/** A registered endpoint. */
public class RegisteredEndpoint internal constructor(
    /** The endpoint's id. */
    public val id: String,
    /** False: the address was known, and was renewed. */
    public val created: Boolean,
    /** Secret, with which its holder can change and delete the endpoint. */
    public val manageToken: String,
)

/** Registers an endpoint, with the key, or else with the recipient's token. */
@OptIn(ExperimentalSerializationApi::class)
public suspend fun GodwitClient.registerEndpoint(endpoint: Endpoint): RegisteredEndpoint {
    val body = buildJsonObject {
        put("channel", endpoint.channel)
        text("recipient", endpoint.recipient)
        put("address", JsonUnquotedLiteral(endpoint.address))
        if (endpoint.tags.isNotEmpty()) list("tags", endpoint.tags)
        if (endpoint.attributes.isNotEmpty()) putJsonObject("attributes") { for ((name, value) in endpoint.attributes) put(name, value) }
        text("locale", endpoint.locale)
        text("timezone", endpoint.timezone)
    }
    // A development server's clients name themselves.
    val who = if (api.hasKey) emptyMap() else mapOf("app" to app.ifEmpty { null }, "recipient" to endpoint.recipient.ifEmpty { null })
    return fetch(ApiCall("POST", "endpoints", query = who, body = body.toString())) {
        RegisteredEndpoint(it.string("id"), it.boolean("created"), it.string("manage_token"))
    }
}

/** Removes an endpoint, with the manage token that its registration returned, or with the client's credential if that is empty. */
@JvmOverloads
public suspend fun GodwitClient.removeEndpoint(id: String, manageToken: String = "") {
    requireName("remove endpoint: id", id)
    val call = ApiCall("DELETE", "endpoints", id)
    if (manageToken.isEmpty()) authorised(call) else api.call(call, bearer = manageToken)
}
