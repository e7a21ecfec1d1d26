package dev.godwit

import dev.godwit.wire.MemberException
import dev.godwit.wire.membersOf
import dev.godwit.wire.utf8
import kotlin.io.encoding.Base64

/** Authenticates a recipient. */
public class Token @JvmOverloads constructor(
    /** What the server gets: a JWT or an opaque token. */
    public val value: String,
    /** When it expires, in milliseconds since 1970; 0: as the JWT says, or unknown. */
    public val expiresAtMillis: Long = 0,
) {
    /**
     * When it expires; 0: unknown. A signature is not verified: the server does, and here the time only says when to ask for the next
     * token.
     */
    internal fun expiry(): Long = if (expiresAtMillis != 0L) expiresAtMillis else expiryOfJwt()

    private fun expiryOfJwt(): Long {
        val parts = value.split('.')
        if (parts.size != JWT_PARTS) return 0
        return try {
            val payload = Base64.UrlSafe.withPadding(Base64.PaddingOption.PRESENT_OPTIONAL).decode(parts[1])
            val seconds = membersOf(payload.utf8().orEmpty())?.raw("exp")?.toDoubleOrNull() ?: return 0
            if (seconds > 0 && seconds < LATEST_SECONDS) (seconds * MILLIS).toLong() else 0
        } catch (_: IllegalArgumentException) {
            0
        } catch (_: MemberException) {
            0
        }
    }

    /** How long to wait before asking for the token after this one, nine tenths of what it has left; null: unknown. */
    internal fun renewAfter(nowMillis: Long): Long? = (expiry() - nowMillis).takeIf { it > 0 }?.let { it / 10 * 9 }

    /** Does not print the token. */
    override fun toString(): String = "Token"
}

/**
 * Gets a token that is valid now. It is asked at every connect, and again after nine tenths of a token's life, so it should return a new token
 * or one that stays valid for a while. It runs where blocking is allowed; an exception counts as a failure to connect, and it is asked again.
 */
public fun interface TokenProvider {
    /** Returns a token that is valid now. */
    @Throws(Exception::class)
    public fun token(): Token
}

private const val JWT_PARTS = 3
private const val MILLIS = 1000
private const val LATEST_SECONDS = 1e12
