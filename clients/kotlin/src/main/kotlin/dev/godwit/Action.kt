package dev.godwit

import dev.godwit.wire.text
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.put

/** A choice that a kept notification offers. */
@Serializable
public data class Action @JvmOverloads constructor(
    /** For programs. */
    val id: String,
    /** For people. */
    val title: String,
    /** The page or app that it opens; empty: the choice is a reply. */
    val url: String = "",
) {
    internal fun addTo(json: JsonObjectBuilder) {
        json.put("id", id)
        json.put("title", title)
        json.text("url", url)
    }
}
