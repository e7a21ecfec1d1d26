package dev.godwit.messaging.topics

import dev.godwit.live.Backoff

/** A pattern with its queue, and its state on this connection. */
internal class Subscription(val pattern: String, val queue: String) {
    var sent = false
    var active = false
    var mark = 0 // the number of the ping whose pong confirms the subscription
    var retryAt = 0L
    val retries = Backoff()

    fun matches(pattern: String, queue: String) = this.pattern == pattern && this.queue == queue
}
