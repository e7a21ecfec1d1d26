package dev.godwit

/**
 * Handles one notification. When it has returned, the notification is acknowledged, which settles it for good. An exception asks for it again;
 * [Delivery.redeliver] says when. The coroutine is cancelled when listening ends, and with a [RecalledException] when the notification was
 * settled elsewhere or withdrawn meanwhile.
 */
public fun interface NotificationHandler {
    /** Handles [notification]. */
    public suspend fun Delivery.handle(notification: Notification)
}

/** [NotificationHandler] for programs without coroutines: its thread is interrupted instead of a coroutine cancelled. */
public fun interface BlockingHandler {
    /** Handles [notification]. */
    @Throws(Exception::class)
    public fun handle(delivery: Delivery, notification: Notification)
}

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

/** Cancels a handler whose notification was settled elsewhere or withdrawn. */
public class RecalledException internal constructor() : kotlinx.coroutines.CancellationException("notification was recalled")

/** What a handler decides about its notification. What it says last counts, when the handler has returned. */
public class Delivery internal constructor() {
    internal var answer: Answer? = null
        private set
    internal var redelivery: Redelivery? = null
        private set

    /** Answers the notification, which settles it. The data may have 64 KB. */
    public fun reply(answer: Answer) {
        answer.check(Answer.MOST_TO_NOTIFICATION)
        this.answer = answer
        redelivery = null
    }

    /**
     * Asks for the notification again after [afterMillis], 0 to 24 h, instead of acknowledging it. With a [reason] the server counts: after the
     * fifth one the notification has failed.
     */
    @JvmOverloads
    public fun redeliver(afterMillis: Long, reason: String = "") {
        redelivery = Redelivery(afterMillis.coerceIn(1, LONGEST), reason) // 0 would let the server choose
        answer = null
    }

    internal class Redelivery(val afterMillis: Long, val reason: String)

    private companion object {
        const val LONGEST = 24 * 3600 * 1000L
    }
}
