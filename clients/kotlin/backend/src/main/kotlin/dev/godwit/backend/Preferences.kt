@file:JvmName("PreferenceCalls")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.http.fetch
import dev.godwit.http.order
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.list
import dev.godwit.wire.requireName
import dev.godwit.wire.text
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject

/** The hours of a day in which no step of an escalation begins, like `22:00` to `08:00`. */
public data class QuietHours(
    /** When they begin. */
    public val from: String,
    /** When they end. */
    public val to: String,
)

/**
 * A recipient's wishes about which channels may reach it outside its sessions. They apply when a step of an escalation starts. Without arguments they
 * are the default: every channel, at any time.
 */
public data class Preferences @JvmOverloads constructor(
    /** The channels that each category may use; null: all. `*` is every category without an entry. */
    public val categories: Map<String, List<String>?> = emptyMap(),
    /** They need a [timezone], and hold for no notification that is urgent or of a critical category; null: there are none. */
    public val quietHours: QuietHours? = null,
    /** As in the tz database: `Europe/Oslo`. */
    public val timezone: String = "",
) {
    internal fun json(): String = buildJsonObject {
        if (categories.isNotEmpty()) {
            putJsonObject("categories") { for ((name, channels) in categories) putJsonObject(name) { channels?.let { list("channels", it) } } }
        }
        quietHours?.let {
            putJsonObject("quiet_hours") {
                put("from", it.from)
                put("to", it.to)
            }
        }
        text("timezone", timezone)
    }.toString()

    internal companion object {
        fun of(m: JsonMembers): Preferences {
            val categories = m.members("categories")
            return Preferences(
                categories?.names?.associateWith { name -> categories.members(name)?.let { if (it.raw("channels") == null) null else it.strings("channels") } }
                    .orEmpty(),
                m.members("quiet_hours")?.let { QuietHours(it.string("from"), it.string("to")) },
                m.string("timezone"),
            )
        }
    }
}

/** Reads a recipient's preferences. An API key reads anybody's, a client's token its own. */
public suspend fun GodwitClient.preferences(recipient: String): Preferences {
    requireName("preferences: recipient", recipient)
    return fetch(ApiCall("GET", "recipients", recipient, "preferences")) { Preferences.of(it) }
}

/** Replaces a recipient's preferences. Those without arguments remove them. */
public suspend fun GodwitClient.setPreferences(recipient: String, preferences: Preferences) {
    requireName("preferences: recipient", recipient)
    order(ApiCall("PUT", "recipients", recipient, "preferences", body = preferences.json()))
}
