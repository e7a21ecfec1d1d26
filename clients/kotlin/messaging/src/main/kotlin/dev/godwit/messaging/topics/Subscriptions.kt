package dev.godwit.messaging.topics

import dev.godwit.live.Due
import dev.godwit.messaging.SubscriptionException
import dev.godwit.messaging.wire.Subscribe
import dev.godwit.messaging.wire.Unsubscribe
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame

/** Keeps a session's subscriptions as the program wants them. It has no connections: frames of the server go in, frames to send come out. */
internal class Subscriptions {
    private val entries = ArrayList<Subscription>()
    private val ending = ArrayList<Subscription>() // to be ended on this connection
    private var live = false

    val active: Boolean get() = live && entries.all { it.active }

    fun add(pattern: String, queue: String) {
        ending.removeAll { it.matches(pattern, queue) }
        if (entries.none { it.matches(pattern, queue) }) entries += Subscription(pattern, queue)
    }

    fun remove(pattern: String, queue: String) {
        val gone = entries.filter { it.matches(pattern, queue) }
        entries.removeAll(gone)
        ending += gone.filter { it.sent }
    }

    /** Begins or ends a connection, on which nothing is subscribed yet. */
    fun connection(live: Boolean) {
        this.live = live
        ending.clear()
        for (e in entries) {
            e.sent = false
            e.active = false
            e.retryAt = 0
        }
    }

    /** Returns what to send now. [pings] is the number of pings sent so far: subscriptions end with one more. */
    fun take(now: Long, pings: Int, ping: () -> ClientFrame): Due {
        if (!live) return Due(emptyList())
        val frames = ending.mapTo(ArrayList<ClientFrame>()) { Unsubscribe(listOf(it.pattern), it.queue) }
        ending.clear()
        val (due, later) = entries.filter { !it.sent }.partition { now >= it.retryAt }
        for ((queue, list) in due.groupBy { it.queue }) {
            list.chunked(MOST_PATTERNS).mapTo(frames) { some -> Subscribe(some.map { it.pattern }, queue) }
        }
        for (e in due) {
            e.sent = true
            e.mark = pings + 1
        }
        if (due.isNotEmpty()) frames += ping() // its pong confirms that the subscriptions are in effect
        return Due(frames, later.minOfOrNull { it.retryAt } ?: Long.MAX_VALUE)
    }

    /** Takes the answer to the [n]th ping. */
    fun pong(n: Int) {
        for (e in entries) {
            if (!e.sent || n < e.mark) continue
            e.active = true
            e.retries.reset()
        }
    }

    /** Takes a refusal of patterns; returns what was refused for good, or null if it is tried again. */
    fun refuse(f: ServerFrame.Failed, now: Long): SubscriptionException? {
        val refused = entries.filter { it.sent && it.pattern in f.refused }
        if (f.code == "unavailable") {
            for (e in refused) {
                e.sent = false
                e.active = false
                e.retryAt = now + e.retries.next()
            }
            return null
        }
        entries.removeAll(refused)
        return SubscriptionException(f.refused, f.code, f.message)
    }
}

private const val MOST_PATTERNS = 256 // in one frame
