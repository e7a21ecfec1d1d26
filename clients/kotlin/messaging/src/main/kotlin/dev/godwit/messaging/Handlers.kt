package dev.godwit.messaging

import dev.godwit.Answer
import dev.godwit.Message
import dev.godwit.Request
import dev.godwit.Signal

/**
 * Handles one version of an object. When it has returned, the version is acknowledged. After an exception it is called again later, with the newest
 * version at that time.
 */
public fun interface SignalHandler {
    /** Handles [signal]. */
    public suspend fun handle(signal: Signal)
}

/** Handles one message of a topic. After an exception the message is not sent again. */
public fun interface MessageHandler {
    /** Handles [message]. */
    public suspend fun handle(message: Message)
}

/**
 * Answers one request. After an exception the answer is status 500 without its text. The coroutine is cancelled at the request's deadline, and
 * when the connection is lost: an answer would not arrive then.
 */
public fun interface RequestHandler {
    /** Answers [request]. */
    public suspend fun answer(request: Request): Answer
}
