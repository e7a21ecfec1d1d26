package dev.godwit

import dev.godwit.wire.JsonMembers
import dev.godwit.wire.needed
import dev.godwit.wire.text
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.put

/** A choice that a kept notification offers. */
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

    internal companion object {
        fun of(m: JsonMembers) = Action(m.needed("id"), m.string("title"), m.string("url"))
    }
}
