package dev.godwit

import dev.godwit.wire.MOST_TO_NOTIFICATION

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

/** Cancels a handler whose notification was settled elsewhere or withdrawn. */
public class RecalledException internal constructor() : kotlinx.coroutines.CancellationException("notification was recalled")

/** What a handler decides about its notification. What it says last counts, when the handler has returned. */
public class Delivery internal constructor() {
    internal var answer: Answer? = null
        private set
    internal var afterMillis: Long? = null // until it is asked for again
        private set
    internal var reason = ""
        private set

    /** Answers the notification, which settles it. The data may have 64 KB. */
    public fun reply(answer: Answer) {
        answer.check(MOST_TO_NOTIFICATION)
        this.answer = answer
        afterMillis = null
    }

    /**
     * Asks for the notification again after [afterMillis], 0 to 24 h, instead of acknowledging it. With a [reason] the server counts: after the
     * fifth one the notification has failed.
     */
    @JvmOverloads
    public fun redeliver(afterMillis: Long, reason: String = "") {
        this.afterMillis = afterMillis.coerceIn(1, LONGEST) // 0 would let the server choose
        this.reason = reason
        answer = null
    }
}

private const val LONGEST = 24 * 3600 * 1000L
