package dev.godwit.live

import dev.godwit.wire.ClientFrame

/**
 * Collects acknowledgements until the session takes them, so that those of a burst share a frame. It outlives sessions: if a connection is lost,
 * the next one sends the rest. The window limits it. Only the engine's coroutines use it.
 */
internal class Outbox(private val delayMillis: Long, window: Int, private val clock: Clock, private val wake: () -> Unit) {
    private val full = maxOf(window / 2, 1) // when this many acknowledgements wait, they are sent at once
    private val acks = ArrayList<String>()
    private val others = ArrayList<ClientFrame>()
    private var ackedAt: Long? = null // when some left last

    fun ack(id: String) {
        acks += id
        if (acks.size == 1 || acks.size >= full) wake() // for those in between the session knows already
    }

    fun add(frame: ClientFrame) {
        others += frame
        wake()
    }

    /** Empties the outbox. Acknowledgements stay while they wait for others, unless something else is sent or [all] is to be. */
    fun take(all: Boolean): Due {
        val now = clock.now()
        val due = ackedAt?.let { it + delayMillis } ?: now
        if (acks.isNotEmpty() && others.isEmpty() && !all && acks.size < full && now < due) return Due(emptyList(), due)
        if (acks.isNotEmpty()) ackedAt = now
        val frames = acks.chunked(MOST_IDS).map { ClientFrame.Ack(it) } + others
        acks.clear()
        others.clear()
        return Due(frames)
    }
}

private const val MOST_IDS = 256 // in one frame
