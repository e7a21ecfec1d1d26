package dev.godwit.messaging

import dev.godwit.GodwitException
import dev.godwit.ListenOptions
import dev.godwit.Message
import dev.godwit.live.Clock
import dev.godwit.live.Due
import dev.godwit.live.Listener
import dev.godwit.live.Part
import dev.godwit.messaging.topics.Subscriptions
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.requireName
import dev.godwit.wire.requirePattern
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.first

/** The server refused patterns for good: the token's topics do not allow them, or the session has too many. They are no longer subscribed. */
public class SubscriptionException internal constructor(
    /** The patterns. */
    public val topics: List<String>,
    /** For programs: `forbidden` or `too_many_topics`. */
    public val code: String,
    message: String,
) : GodwitException("subscribe: $message ($code)")

/**
 * A program's subscriptions. Put them into [ListenOptions.topics]: the listener receives the messages, and subscribes again on every new
 * connection. Messages come at most once, each once however many patterns match; those published while there is no connection are missed.
 * Messages are passed to [handler] one after the other. All methods may be called at any time, on any thread.
 */
public class Topics internal constructor(private val handler: MessageHandler, private val clock: Clock) {
    /** Returns topics that pass their messages to [handler]. */
    public constructor(handler: MessageHandler) : this(handler, Clock())

    private val lock = Any()
    private val subscriptions = Subscriptions() // and the following: with the lock held
    private val waiting = ArrayDeque<Incoming>()
    private var bytes = 0
    private val refused = ArrayDeque<SubscriptionException>()
    private var listener: Listener? = null
    private val work = Channel<Unit>(Channel.CONFLATED)
    private val moved = MutableStateFlow(0L)

    /** Called before the next message, with the number of messages that were dropped because this program or its connection was too slow. */
    @Volatile public var onGap: ((Int) -> Unit)? = null

    /** A message for the handler, or a number of dropped ones. */
    private class Incoming(val message: Message?, var gap: Int)

    /** Subscribes to topics or patterns: `*` stands for any one token, a final `>` for one or more. */
    public fun subscribe(vararg patterns: String): Unit = subscribe("", patterns)

    /** [subscribe] as a member of a queue: among the subscribers to a pattern with the same queue, one gets each message. */
    public fun subscribeQueue(queue: String, vararg patterns: String) {
        requireName("subscribe: queue", queue)
        subscribe(queue, patterns)
    }

    private fun subscribe(queue: String, patterns: Array<out String>) {
        patterns.forEach(::requirePattern)
        change { for (p in patterns) subscriptions.add(p, queue) }
    }

    /** Ends subscriptions. Messages under way are still delivered. */
    public fun unsubscribe(vararg patterns: String): Unit = change { for (p in patterns) subscriptions.remove(p, "") }

    /** Ends what [subscribeQueue] began. */
    public fun unsubscribeQueue(queue: String, vararg patterns: String): Unit = change { for (p in patterns) subscriptions.remove(p, queue) }

    /** Waits until all subscriptions are in effect: later messages are delivered, as long as the connection lasts. */
    public suspend fun active() {
        moved.first { synchronized(lock) { subscriptions.active } }
    }

    private fun change(change: () -> Unit) {
        val told = synchronized(lock) {
            change()
            listener
        }
        moved.moveOn()
        told?.wakeUp()
    }

    /** Takes an error of the server; false: it is about something else. */
    private fun refuse(f: ServerFrame.Failed): Boolean {
        if (f.field != "topics" || f.refused.isEmpty()) return false
        change { subscriptions.refuse(f, clock.now())?.let(refused::addLast) }
        work.trySend(Unit)
        return true
    }

    /** Queues a message or a gap for the handler. The connection does not wait for the handler. */
    private fun queue(f: ServerFrame.Messaged) {
        synchronized(lock) {
            val full = waiting.size >= MOST_MESSAGES || bytes + f.message.data.size > MOST_BYTES
            val last = waiting.lastOrNull()
            when {
                f.gap == 0 && !full -> {
                    waiting += Incoming(f.message, 0)
                    bytes += f.message.data.size
                }
                last != null && last.message == null -> last.gap += maxOf(f.gap, 1)
                else -> waiting += Incoming(null, maxOf(f.gap, 1))
            }
        }
        work.trySend(Unit)
    }

    private suspend fun deliver(next: Incoming, to: Listener) {
        try {
            if (next.message != null) handler.handle(next.message) else onGap?.invoke(next.gap)
        } catch (e: Exception) {
            currentCoroutineContext().ensureActive() // a CancellationException may be the handler's own, as of a withTimeout
            to.reported(e)
        }
    }

    /** Has a listener receive the messages of these topics. */
    internal val receiving = Receiving()

    internal inner class Receiving : Part() {
        val topics: Topics get() = this@Topics

        override suspend fun attach(listener: Listener) = synchronized(lock) {
            check(this@Topics.listener == null) { "listen: the topics are used by another listener" }
            this@Topics.listener = listener
        }

        override suspend fun detach() = synchronized(lock) { listener = null }

        override fun welcomed(digest: String) = change { subscriptions.connection(true) }

        override fun lost() = change { subscriptions.connection(false) }

        override fun due(last: Boolean, pings: Int): Due = synchronized(lock) {
            subscriptions.take(clock.now(), pings) { listener?.ping() ?: ClientFrame.Ping() }
        }

        override fun take(frame: ServerFrame, pongs: Int): Boolean {
            when (frame) {
                is ServerFrame.Messaged -> queue(frame)
                is ServerFrame.Failed -> return refuse(frame)
                is ServerFrame.Pong -> {
                    synchronized(lock) { subscriptions.pong(pongs) }
                    moved.moveOn()
                }
                else -> return false
            }
            return true
        }

        /** Calls the handler until it is cancelled. */
        override suspend fun run() {
            val to = checkNotNull(listener)
            while (true) {
                while (true) to.reported(synchronized(lock) { refused.removeFirstOrNull() } ?: break)
                val next = synchronized(lock) { waiting.removeFirstOrNull()?.also { bytes -= it.message?.data?.size ?: 0 } }
                if (next == null) work.receive() else deliver(next, to)
            }
        }
    }
}

// Limits of the messages that wait for the handler. Further ones are dropped and reported as a gap.
private const val MOST_MESSAGES = 4096
private const val MOST_BYTES = 8 shl 20
