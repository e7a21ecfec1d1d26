@file:JvmName("Channels")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.http.fetch
import dev.godwit.http.order
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.requireName
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.json.JsonUnquotedLiteral
import kotlinx.serialization.json.buildJsonObject
import kotlin.time.Instant

/** The part of a channel's settings that is not secret. */
public class ChannelSettings internal constructor(m: JsonMembers) {
    /** `fcm`, `apns`, `webpush` and others. */
    public val channel: String = m.string("channel")

    /** It has all that it needs. */
    public val configured: Boolean = m.boolean("configured")

    /** It sends. */
    public val enabled: Boolean = m.boolean("enabled")

    /** The settings, an object in JSON. */
    public val settings: String = m.raw("settings").orEmpty().ifEmpty { "{}" }

    /** The names of the credentials that are set. */
    public val credentials: List<String> = m.strings("credentials")

    /** When it was last changed; null: it never was. */
    public val updatedAt: Instant? = m.time("updated_at")

    /** Names the channel. */
    override fun toString(): String = "ChannelSettings($channel)"
}

/** A provider's answer to the test of a channel. */
public class ChannelTest internal constructor(m: JsonMembers) {
    /** It took the credentials, and the message if there was one. */
    public val ok: Boolean = m.boolean("ok")

    /** `accepted`, `failed` and others. */
    public val outcome: String = m.string("outcome")

    /** The provider's words. */
    public val detail: String = m.string("detail")
}

/** The app's channels, including those that are not set up. */
public suspend fun GodwitClient.channels(): List<ChannelSettings> = fetchList(ApiCall("GET", "channels"), "items") { ChannelSettings(it) }

/** Sets up a channel, with settings and credentials as an object in JSON: `{"service_account":"…"}`. It takes role admin. */
public suspend fun GodwitClient.setChannel(channel: String, settings: String) {
    requireName("set channel", channel)
    order(ApiCall("PUT", "channels", channel, body = settings))
}

/**
 * Tests a channel's credentials. It takes role admin.
 *
 * @param address in JSON, as the channel's endpoints have it: a message is sent there; empty: none is sent
 */
@OptIn(ExperimentalSerializationApi::class)
@JvmOverloads
public suspend fun GodwitClient.testChannel(channel: String, address: String = ""): ChannelTest {
    requireName("test channel", channel)
    val body = buildJsonObject { if (address.isNotEmpty()) put("address", JsonUnquotedLiteral(address)) }.toString()
    return fetch(ApiCall("POST", "channels", channel, "test", body = body)) { ChannelTest(it) }
}

/** Removes a channel's settings and credentials. It takes role admin. */
public suspend fun GodwitClient.deleteChannel(channel: String) {
    requireName("delete channel", channel)
    order(ApiCall("DELETE", "channels", channel))
}
