package dev.godwit.live

import dev.godwit.Token

/** Who a session is for, and how it proves that. */
internal class Credentials(
    val app: String,
    val recipient: String,
    /** Null: the server takes the recipient's word, or [apiKey]. */
    val tokens: (suspend () -> Token)?,
    /** Sent in the place of a token by observers and workers; empty: there is none. */
    val apiKey: String,
)
