package dev.godwit.live

import dev.godwit.Delivery
import dev.godwit.ListenEvents
import dev.godwit.ListenOptions
import dev.godwit.NetworkMonitor
import dev.godwit.Notification
import dev.godwit.NotificationHandler
import dev.godwit.RecalledException
import dev.godwit.RefusedException
import dev.godwit.UndecodableException
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.cut
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.supervisorScope
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeoutOrNull

/**
 * Listens for one recipient: one session after the other, and handlers beside them. Only coroutines of [engine] use
 * its state, one at a time; handlers run in the caller's context.
 */
internal class Listener(
    val credentials: Credentials,
    private val handler: NotificationHandler?,
    val options: ListenOptions,
    val dialer: Dialer,
    val engine: CoroutineDispatcher,
    val clock: Clock,
    private val monitor: NetworkMonitor?,
) {
    private class Handling(val notification: Notification) {
        var recalled = false
        var handling: Job? = null
    }

    /** Has an element when the session has something to send, or the listener is closing. */
    val wake = Channel<Unit>(Channel.CONFLATED)
    val outbox = Outbox(options.ackDelayMillis, options.window, clock) { wakeUp() }

    /** The listener ends: sessions send what waits and close. */
    var closing = false
        private set

    /** The session that is welcomed; null: there is none. */
    var live: Session? = null
    val parts: List<Part> = options.parts

    private val jobs = Channel<Handling>(LARGEST_WINDOW) // all that a server has unacknowledged
    private val held = HashMap<String, Handling>() // waiting or being handled, by id
    private val seen = Newest<Unit>(REMEMBERED)
    private val replied = Newest<ClientFrame.Reply>(REMEMBERED_REPLIES) // one that was lost with its connection is sent again
    private val events = options.events

    /**
     * Listens until the caller is cancelled, or the server refuses the client. Connections end a little later than handlers, so that the last
     * acknowledgements are sent.
     */
    suspend fun run(): Nothing = listen(parts)

    /** Listens with these parts, each of which ends whatever becomes of the others. */
    private suspend fun listen(with: List<Part>): Nothing {
        val part = with.firstOrNull() ?: listen()
        part.attach(this)
        try {
            listen(with.drop(1))
        } finally {
            part.detach()
        }
    }

    /** Has the session look for what there is to send. */
    fun wakeUp() {
        wake.trySend(Unit)
    }

    /** What the hello and each ping say of objects; null: nothing. */
    fun digest(): String? = parts.firstNotNullOfOrNull { it.digest() }

    /** A ping, as the server expects it of this listener. */
    fun ping(): ClientFrame = ClientFrame.Ping(digest().orEmpty())

    private suspend fun listen(): Nothing {
        val connections = CoroutineScope(engine + SupervisorJob())
        val connector = Connector(this)
        val connecting = connections.async(start = CoroutineStart.LAZY) { connector.run() }
        val subscription = monitor?.subscribe { connections.launch { connector.networkChanged() } }
        try {
            coroutineScope {
                repeat(options.concurrency) { launch { for (job in jobs) handle(job) } }
                for (part in parts) launch { part.run() }
                throw connecting.await() ?: CancellationException("the listener was closed")
            }
        } finally {
            withContext(NonCancellable + engine) {
                subscription?.close()
                stop(connecting)
                connections.cancel()
            }
        }
    }

    private suspend fun stop(connecting: Deferred<RefusedException?>) {
        for (part in parts) part.stop()
        closing = true
        if (live != null) {
            wakeUp()
            withTimeoutOrNull(FLUSH_PATIENCE) { connecting.join() }
        }
        connecting.cancel()
        connecting.join()
    }

    private suspend fun handle(job: Handling) {
        val delivery = Delivery()
        var outcome: Throwable? = CancellationException("recalled")
        var cancelled = true
        try {
            supervisorScope {
                val handling = launch(start = CoroutineStart.LAZY) {
                    // A handler that ends its work although it was cancelled has done it.
                    outcome = try {
                        handler?.apply { delivery.handle(job.notification) }
                        null
                    } catch (e: Throwable) {
                        e
                    }
                    cancelled = !isActive // otherwise a CancellationException is the handler's own, as of a withTimeout
                }
                inEngine { if (job.recalled) handling.cancel() else job.handling = handling }
                handling.join()
            }
        } finally {
            inEngine { handled(job, delivery, outcome, cancelled) }
        }
    }

    /** Takes what a handler decided, or how it failed. */
    private fun handled(job: Handling, delivery: Delivery, error: Throwable?, cancelled: Boolean) {
        val n = job.notification
        held.remove(n.id)
        val reply = delivery.answer?.let { ClientFrame.Reply("", n.id, it) }
        val later = delivery.afterMillis
        if (error == null && later == null) if (reply != null) replied[n.id] = reply else seen[n.id] = Unit
        if (error is CancellationException && cancelled || job.recalled && error != null) return // settled already, or the next connection delivers it again
        if (error != null) tell { handlerFailed(n, error) }
        if (options.silent) return
        when {
            error != null -> outbox.add(ClientFrame.Nack(listOf(n.id)))
            later != null -> outbox.add(ClientFrame.Nack(listOf(n.id), later, cut(delivery.reason)))
            reply != null -> outbox.add(reply)
            else -> outbox.ack(n.id)
        }
    }

    /** Queues a notification for the handlers, unless it is queued or was handled. */
    fun take(n: Notification) {
        if (handler == null || n.id in held) return // the program uses only objects or topics; or the notification waits already
        val reply = replied[n.id]
        when {
            options.silent && (n.id in seen || reply != null) -> Unit
            n.id in seen -> outbox.ack(n.id) // the first acknowledgement was lost with its connection
            reply != null -> outbox.add(reply) // and so was the first answer
            else -> {
                val job = Handling(n)
                // Beyond any window the server delivers it again later.
                if (jobs.trySend(job).isSuccess) held[n.id] = job
            }
        }
    }

    fun recall(ids: List<String>) {
        for (id in ids) {
            val job = held[id] ?: continue
            job.recalled = true
            job.handling?.cancel(RecalledException())
        }
        tell { recalled(ids) }
    }

    /** Answers a frame that cannot be read. A notification is asked for again after a while, for a program that can read it; the server gives up eventually. */
    fun undecodable(e: UndecodableException) {
        when {
            e.id.isEmpty() -> report(e)
            handler == null || e.id in held -> Unit
            e.id in seen && !options.silent -> outbox.ack(e.id) // a readable copy was handled before
            else -> {
                report(e)
                if (!options.silent) outbox.add(ClientFrame.Nack(listOf(e.id), e.pauseMillis, e.reason))
            }
        }
    }

    fun report(error: Throwable) {
        try {
            events.failed(error)
        } catch (_: Exception) {
            // There is no other way to tell the program.
        }
    }

    /** Reports a failure, from outside the engine. */
    suspend fun reported(error: Throwable) = inEngine { report(error) }

    /** Does something as the engine does, also where the caller was cancelled. */
    suspend fun inEngine(what: () -> Unit) = withContext(NonCancellable + engine) { what() }

    /** Calls the program. What a callback throws is reported, and ends nothing. */
    fun tell(callback: ListenEvents.() -> Unit) {
        try {
            events.callback()
        } catch (e: Exception) {
            report(e)
        }
    }
}

/** How many handled ids are remembered to recognize redeliveries: several of the largest windows. */
private const val REMEMBERED = 8192
private const val REMEMBERED_REPLIES = 64 // 4 MB if all have the largest size

/** How long the last handlers' acknowledgements may take to be sent, in milliseconds. */
private const val FLUSH_PATIENCE = 2_000L

/** How many notifications a session may have unacknowledged. */
internal const val LARGEST_WINDOW = 1024
