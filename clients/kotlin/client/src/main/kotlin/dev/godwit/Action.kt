package dev.godwit

/** A choice that a kept notification offers. */
public data class Action @JvmOverloads constructor(
    /** For programs. */
    val id: String,
    /** For people. */
    val title: String,
    /** The page or app that it opens; empty: the choice is a reply. */
    val url: String = "",
)
