package dev.godwit.messaging.objects

import dev.godwit.Signal
import dev.godwit.messaging.wire.ObjectAck
import dev.godwit.wire.ClientFrame

/** The signals of registered objects that wait for handlers, and the acknowledgements of those that were handled. */
internal class Signals(private val registrations: Registrations) {
    private val queue = ArrayDeque<ObjectKey>()
    private val acks = HashMap<ObjectKey, Long>()

    /** When the acknowledgements are due. */
    var acksAt = NEVER
        private set

    /** Queues a signal for its handler, where it replaces an older one. The versions that a handler gets only grow. */
    fun take(s: Signal, now: Long) {
        val key = registrations.key(s.group, s.name)
        val e = registrations.entries[key]?.takeIf { it.wanted } ?: return // the digests correct the server's set later
        if (!s.unknown && e.covers(s)) {
            if (e.running == null && e.waiting == null) acknowledge(key, s.version, now) // the first acknowledgement was lost
            return
        }
        e.waiting = Signal(key.group, s.name, s.version, s.unknown, s.payload, s.contentType)
        e.retryAt = 0
        e.retries.reset()
        enqueue(e)
    }

    fun enqueue(e: Registration) {
        if (e.queued || e.waiting == null || e.running != null || e.handler == null) return
        e.queued = true
        queue.addLast(e.key)
    }

    /** A signal for its handler. */
    class Next(val registration: Registration, val signal: Signal)

    /** Removes the next signal from the queue; null: there is none before [retryAt]. */
    fun next(now: Long): Next? {
        retryAt = NEVER
        repeat(queue.size) {
            val key = queue.removeFirst()
            val e = registrations.entries[key] ?: return@repeat
            val s = e.waiting
            when {
                s == null -> e.queued = false
                now < e.retryAt -> {
                    retryAt = minOf(retryAt, e.retryAt)
                    queue.addLast(key)
                }
                else -> {
                    e.queued = false
                    e.running = s
                    e.waiting = null
                    return Next(e, s)
                }
            }
        }
        return null
    }

    /** When a signal whose handler failed is due again. */
    var retryAt = NEVER
        private set

    /** Takes a handler's result. A handled signal is acknowledged; a failed one is tried again later, unless a newer version has come. */
    fun handled(next: Next, failed: Boolean, now: Long) {
        val e = next.registration
        val s = next.signal
        if (registrations.entries[e.key] !== e || e.running !== s) return // unregistered meanwhile, and perhaps registered again
        e.running = null
        when {
            failed -> if (e.waiting == null && e.wanted) {
                e.waiting = s
                e.retryAt = now + e.retries.next()
            }
            s.unknown -> {
                e.unknown = true
                e.floor = s.version
                registrations.revision++
            }
            else -> {
                e.version = s.version
                e.unknown = false
                e.anew = false
                e.retries.reset()
                registrations.revision++
                if (e.wanted) acknowledge(e.key, s.version, now)
            }
        }
        enqueue(e)
    }

    /**
     * Queues the acknowledgement of a version. No handler waits for it, so acknowledgements are collected for a moment: a burst of versions costs
     * one for each object, and all are sent together.
     */
    private fun acknowledge(key: ObjectKey, version: Long, now: Long) {
        if (acks.isEmpty()) acksAt = now + ACK_PATIENCE
        acks[key] = maxOf(acks[key] ?: 0, version) // an older version may come again meanwhile
    }

    /** Takes the acknowledgements that are due, or all. */
    fun acks(now: Long, all: Boolean): List<ClientFrame> {
        if (!all && now < acksAt) return emptyList()
        val frames = acks.map { (key, version) -> ObjectAck(key.name, registrations.left(key.group), version) }
        acks.clear()
        acksAt = NEVER
        return frames
    }

    fun forget(key: ObjectKey) {
        acks.remove(key)
    }
}

private const val NEVER = Long.MAX_VALUE

/** How long acknowledgements are collected, in milliseconds, as TCP delays its own. */
private const val ACK_PATIENCE = 20L
