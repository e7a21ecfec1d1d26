package dev.godwit.backend

import dev.godwit.wire.text
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.JsonUnquotedLiteral
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/** What Android devices alone get of a notification, over Firebase Cloud Messaging. */
public class Fcm {
    /** Android's notification channel. */
    public var channelId: String = ""

    /** A sound of the app, or `default`. */
    public var sound: String = ""

    /** False: Android shows the notification itself. */
    public var dataOnly: Boolean = true

    /** The app shows a notification that stays, as Android's Live Updates do. The next one of the same [Publication.collapseKey] replaces it. */
    public var ongoing: Boolean = false

    /** Of an ongoing one: the text in the status bar. */
    public var shortText: String = ""

    /** Of an ongoing one: how full its bar is, 0 to 100; null: it has none. */
    public var progress: Int? = null

    /** It may come before the device is first unlocked after a start. */
    public var directBootOk: Boolean = false

    /** It may come over a restricted satellite network. */
    public var restrictedSatelliteOk: Boolean = false

    /** It may come over a network of little bandwidth. */
    public var bandwidthConstrainedOk: Boolean = false

    internal fun json(): JsonObject = buildJsonObject {
        text("channel_id", channelId)
        text("sound", sound)
        if (!dataOnly) put("data_only", false)
        truth("ongoing", ongoing)
        text("short_text", shortText)
        progress?.let { put("progress", it) }
        truth("direct_boot_ok", directBootOk)
        truth("restricted_satellite_ok", restrictedSatelliteOk)
        truth("bandwidth_constrained_ok", bandwidthConstrainedOk)
    }
}

/** What Apple's devices alone get of a notification. */
public class Apns {
    /** `default`, or a file in the app. */
    public var sound: String = ""

    /** The number on the app's icon; null: it stays. */
    public var badge: Int? = null

    /** Notifications of the same thread are shown together. */
    public var threadId: String = ""

    /** `passive`, `active`, `time-sensitive` or `critical`. */
    public var interruptionLevel: String = ""

    /** The order in a summary, from 0 to 1. */
    public var relevanceScore: Double? = null

    /** The sound plays although the device is muted. */
    public var critical: Boolean = false

    /** Of a critical sound, from 0 to 1. */
    public var volume: Double? = null

    /** It wakes the app, and shows nothing. */
    public var background: Boolean = false

    internal fun json(): JsonObject = buildJsonObject {
        text("sound", sound)
        badge?.let { put("badge", it) }
        text("thread_id", threadId)
        text("interruption_level", interruptionLevel)
        relevanceScore?.let { put("relevance_score", it) }
        truth("critical", critical)
        volume?.let { put("volume", it) }
        truth("background", background)
    }
}

/**
 * The Live Activity that a notification starts by a step of the channel `liveactivitystart`. The notification's title and text are its alert.
 *
 * @param type the name of the app's ActivityAttributes
 * @param state the content state at the start, an object in JSON
 */
public class LiveActivity(private val type: String, private val state: String) {
    /** The activity's attributes, an object in JSON; empty: it has none. */
    public var attributes: String = ""

    /** The group of [followed]. */
    public var group: String = ""

    /** The object that the activity follows: the payload of each version is its next content state. */
    public var followed: String = ""

    /** The id of the object's broadcast channel. */
    public var broadcast: String = ""

    /** How long a state is good for, in milliseconds; 0: as long as the activity. */
    public var staleAfterMillis: Long = 0

    /** Which of an app's activities is shown first. */
    public var relevanceScore: Double? = null

    @OptIn(ExperimentalSerializationApi::class)
    internal fun json(): JsonObject = buildJsonObject {
        put("type", type)
        if (attributes.isNotEmpty()) put("attributes", JsonUnquotedLiteral(attributes))
        put("state", JsonUnquotedLiteral(state))
        text("group", group)
        text("object", followed)
        text("broadcast", broadcast)
        if (staleAfterMillis != 0L) put("stale_after", "${staleAfterMillis}ms")
        relevanceScore?.let { put("relevance_score", it) }
    }
}

private fun JsonObjectBuilder.truth(name: String, value: Boolean) {
    if (value) put(name, true)
}
