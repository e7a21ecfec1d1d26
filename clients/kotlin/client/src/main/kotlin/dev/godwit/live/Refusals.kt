package dev.godwit.live

import dev.godwit.GodwitException
import dev.godwit.RefusedException
import dev.godwit.ServerException

/** The server's goodbye, which ended a session. */
internal class GoodbyeException(val reason: String, val retryAfterMillis: Long) : GodwitException("server said goodbye: $reason")

/** The server closed the connection and said nothing but this code of RFC 6455. */
internal class ClosedException(val code: Int, val reason: String) :
    GodwitException("server closed the connection: $code" + if (reason.isEmpty()) "" else " $reason")

internal const val POLICY_VIOLATION = 1008
internal const val TRY_AGAIN_LATER = 1013

/** What a connection's end means for the next one. */
internal class End(private val error: Throwable) {
    /** The reason for which the server refused this client; empty: the next connection may succeed. */
    val refusal: String = when (error) {
        is GoodbyeException -> error.reason
        is RefusedException -> error.reason
        is ClosedException -> if (error.code == POLICY_VIOLATION) error.reason.ifEmpty { "policy" } else ""
        is ServerException -> refusalOf(error)
        else -> ""
    }.takeIf(::isFinal).orEmpty()

    private fun isFinal(reason: String) = when (reason) {
        UNAUTHENTICATED, "token_expired", "forbidden", "unknown_app", "replaced", "erased", "answer", "policy", "hello" -> true
        else -> false
    }

    /** What is not one of Godwit's answers is that of a proxy, or of a network that first wants a sign-in. */
    private fun refusalOf(error: ServerException) = when {
        error.temporary || error.type.isEmpty() -> ""
        error.status == UNAUTHORIZED -> UNAUTHENTICATED
        else -> "answer"
    }

    /** Whether another token may be accepted. */
    val byToken: Boolean get() = refusal == UNAUTHENTICATED || refusal == "token_expired"

    /** How long the server asked to wait, in milliseconds. */
    val askedMillis: Long
        get() = when (error) {
            is GoodbyeException -> error.retryAfterMillis
            is ServerException -> error.retryAfterMillis
            else -> 0
        }

    /** Whether the server is too busy for a retry at once. */
    val busy: Boolean get() = error is ClosedException && error.code == TRY_AGAIN_LATER

    fun refused(): RefusedException = when (error) {
        is RefusedException -> error
        is GoodbyeException, is ClosedException -> RefusedException(refusal)
        else -> RefusedException(refusal, error)
    }
}

private const val UNAUTHORIZED = 401
private const val UNAUTHENTICATED = "unauthenticated"
