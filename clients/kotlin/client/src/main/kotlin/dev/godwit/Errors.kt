package dev.godwit

import java.io.IOException

/** What went wrong with a server. */
public open class GodwitException(message: String, cause: Throwable? = null) : IOException(message, cause)

/** The server could not be reached, or a connection to it was lost. The same may work later. */
public class UnreachableException(message: String, cause: Throwable? = null) : GodwitException(message, cause)

/** An error answer of the server: an RFC 9457 problem. */
public class ServerException(
    /** The HTTP status. */
    public val status: Int,
    /** For programs: `/problems/mailbox-full`. Empty if the answer is not one of Godwit's, as that of a proxy. */
    public val type: String,
    /** For people. */
    public val title: String,
    /** What is wrong with this request. */
    public val detail: String,
    /** The field of the request that is at fault; empty if none is. */
    public val field: String,
    /** How long the server asks to wait before a retry, in milliseconds; 0 if it does not. */
    public val retryAfterMillis: Long,
) : GodwitException("server answered $status: " + detail.ifEmpty { title.lowercase() }.ifEmpty { "no reason" }) {
    /** Whether the same request may succeed later. */
    public val temporary: Boolean
        get() = when (status) {
            408, 429, 500, 502, 503, 504 -> true
            else -> false
        }

    /** Nobody was asked: no worker serves the subject, all are busy, or the recipient is not connected. */
    public val nobodyServes: Boolean get() = type == "/problems/nobody-serves" || type == "/problems/workers-busy" || type == "/problems/not-connected"

    /** No answer came in time. The worker may have carried out the request. */
    public val noAnswer: Boolean get() = type == "/problems/no-answer" || type == "/problems/worker-gone"
}

/** Ends listening: the server does not accept this client, or no longer, and an unchanged retry would fail again. */
public class RefusedException(
    /** The reason of the server's goodbye: `unauthenticated`, `forbidden`, `replaced`, `erased` and others. */
    public val reason: String,
    cause: Throwable? = null,
) : GodwitException("server refused the session: " + (cause?.message ?: reason), cause)

/**
 * A frame from the server that cannot be decoded. The session goes on: a notification is asked for again later, an object is not
 * acknowledged, anything else is ignored.
 */
public class UndecodableException internal constructor(
    /** The notification's id; empty if the frame is none, or its id cannot be read either. */
    public val id: String,
    /** The object, as `group/object`; empty if the frame is none. */
    public val signalled: String,
    /** Begins with the name of the member at fault: `data: is not JSON`. */
    public val reason: String,
    internal val attempt: Int,
) : GodwitException(
    when {
        id.isNotEmpty() -> "cannot read notification $id: $reason"
        signalled.isNotEmpty() -> "cannot read object $signalled: $reason"
        else -> "cannot read a frame of the server: $reason"
    },
) {
    /** How long to wait until it is asked for again, since a later version of the program may read it: it doubles with each attempt. */
    internal val pauseMillis: Long
        get() = if (attempt in 1..DOUBLINGS) minOf(FIRST_PAUSE shl (attempt - 1), LONGEST_PAUSE) else LONGEST_PAUSE
}

/** The server's error about one frame of this client. The session goes on. */
public class FrameRefusedException(
    /** For programs: `forbidden`, `bad_field` and others. */
    public val code: String,
    /** The field at fault; empty if none is. */
    public val field: String,
    message: String,
) : GodwitException("server refused a frame: $code: $message")

private const val DOUBLINGS = 5
private const val FIRST_PAUSE = 10_000L
private const val LONGEST_PAUSE: Long = 300_000
