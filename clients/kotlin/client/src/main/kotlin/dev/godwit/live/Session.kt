package dev.godwit.live

import dev.godwit.Answer
import dev.godwit.FrameRefusedException
import dev.godwit.GodwitException
import dev.godwit.RefusedException
import dev.godwit.Token
import dev.godwit.UnreachableException
import dev.godwit.Welcome
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.cancelChildren
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull

/** One connection from hello to end. Only the engine's coroutines use it. */
internal class Session(private val l: Listener) {
    private var connection: Connection? = null
    private var welcome: Welcome? = null
    private var token = Token("")
    private var heartbeat = Heartbeat(1, false, 0, l.clock)
    private var helloAt = 0L
    private var welcomedAt = 0L
    private var pings = 0 // sent
    private var pongs = 0 // received

    val welcomed: Boolean get() = welcome != null

    /** Connects, says hello and waits for the welcome. */
    suspend fun open(connector: Connector) {
        token = connector.token()
        val c = l.dialer.dial()
        connection = c
        helloAt = l.clock.now()
        c.send(listOf(hello(first = true)))
        while (welcome == null) {
            when (val f = c.receive()) {
                is ServerFrame.Welcomed -> begin(f.welcome)
                is ServerFrame.Goodbye -> throw GoodbyeException(f.reason, f.retryAfterMillis)
                is ServerFrame.Failed -> throw RefusedException("hello", FrameRefusedException(f.code, f.field, f.message))
                is ServerFrame.Undecodable -> l.report(f.error)
                else -> Unit
            }
        }
    }

    /** The hello of a connection, or with another token a later one, which need not repeat the rest. */
    private fun hello(first: Boolean) = ClientFrame.Hello(
        app = l.credentials.app,
        token = token.value,
        recipient = l.credentials.recipient,
        group = l.parts.firstNotNullOfOrNull { it.group } ?: l.options.group,
        device = l.options.device,
        digest = if (first) l.digest().orEmpty() else "",
        held = if (first) heldIds() else emptyList(),
        window = if (first) l.options.window else 0,
        heartbeatMillis = l.options.heartbeatMillis,
        observe = l.options.observe,
    )

    private fun heldIds(): List<String> {
        var ids = emptyList<String>()
        l.tell { ids = l.options.held?.invoke().orEmpty() }
        return ids
    }

    private fun begin(w: Welcome) {
        welcome = w
        welcomedAt = l.clock.now()
        heartbeat = Heartbeat(maxOf(w.heartbeatMillis, SHORTEST_BEAT), l.digest() != null, welcomedAt - helloAt, l.clock)
    }

    /** Runs the welcomed session and returns the reason of its end. */
    suspend fun run(): Throwable = coroutineScope {
        val c = checkNotNull(connection)
        val w = checkNotNull(welcome)
        for (part in l.parts) part.welcomed(w.digest)
        l.tell { connected(w) }
        w.inbox?.let { l.tell { inboxChanged(it) } }
        val end = CompletableDeferred<Throwable>()
        launch { end.complete(read(c)) }
        launch { end.complete(write(c)) }
        launch { renew() }
        end.await().also { coroutineContext.cancelChildren() }
    }

    /** Releases what the session has. */
    fun end() {
        connection?.abort()
        if (welcome == null) return
        for (part in l.parts) part.lost()
    }

    /** Whether it is being found out whether the connection lives. */
    val probing: Boolean get() = heartbeat.probing

    /** Finds out soon whether the connection lives. */
    fun probe() {
        heartbeat.probe()
        l.wake.trySend(Unit)
    }

    private suspend fun read(c: Connection): Throwable {
        try {
            while (true) {
                val f = c.receive()
                heartbeat.heard(f is ServerFrame.Pong)
                if (f is ServerFrame.Goodbye) {
                    val bye = GoodbyeException(f.reason, f.retryAfterMillis)
                    withTimeoutOrNull(BYE_PATIENCE) { closed(c) } // the server closes next, which ends the connection in order
                    return bye
                }
                handle(f)
            }
        } catch (e: GodwitException) {
            return e
        }
    }

    private suspend fun closed(c: Connection) {
        try {
            while (true) c.receive()
        } catch (_: GodwitException) {
            // It is closed.
        }
    }

    private fun handle(f: ServerFrame) {
        when (f) {
            is ServerFrame.Notified -> l.take(f.notification)
            is ServerFrame.Recall -> l.recall(f.ids)
            is ServerFrame.InboxChanged -> l.tell { inboxChanged(f.news) }
            is ServerFrame.Undecodable -> l.undecodable(f.error)
            else -> {
                if (f is ServerFrame.Pong) pongs++
                val taken = l.parts.count { it.take(f, pongs) } > 0
                if (!taken) unclaimed(f)
            }
        }
    }

    /** Handles a frame that is for none of the listener's parts. */
    private fun unclaimed(f: ServerFrame) {
        if (f is ServerFrame.Failed) l.report(FrameRefusedException(f.code, f.field, f.message))
        if (f is ServerFrame.Requested) l.outbox.add(ClientFrame.Reply(f.request.id, "", Answer("this client answers no requests", status = NOT_IMPLEMENTED)))
    }

    private fun send(frames: List<ClientFrame>) {
        if (frames.isEmpty()) return
        pings += frames.count { it is ClientFrame.Ping }
        connection?.send(frames)
    }

    /** Sends acknowledgements, registrations and pings until the connection is dead or the listener closes. */
    private suspend fun write(c: Connection): Throwable {
        while (true) {
            val again = flush(l.closing)
            if (l.closing) {
                c.finish()
                return UnreachableException("the listener was closed")
            }
            when (heartbeat.check()) {
                Heartbeat.Verdict.PING -> send(listOf(l.ping()))
                Heartbeat.Verdict.SILENT -> return UnreachableException("server was silent for two heartbeats")
                Heartbeat.Verdict.UNANSWERED -> return UnreachableException("server did not answer after the network had changed, or the device had slept")
                Heartbeat.Verdict.ALIVE -> Unit
            }
            val pause = minOf(again, heartbeat.nextCheckAt()) - l.clock.now()
            if (pause > 0) l.wake.receiveWithin(pause)
        }
    }

    /** Sends what waits and returns when there is more to send. */
    private fun flush(last: Boolean): Long {
        val own = l.outbox.take(last)
        send(own.frames)
        var again = own.againAt
        for (part in l.parts) {
            val due = part.due(last, pings)
            send(due.frames)
            again = minOf(again, due.againAt)
        }
        return again
    }

    /** The server's time, which the device's clock need not agree with. */
    fun serverNow(): Long {
        val at = welcome?.serverTime?.toEpochMilliseconds() ?: return l.clock.wall()
        return at + l.clock.now() - welcomedAt
    }

    /** Gets a new token before the present one expires, and sends it in another hello. */
    private suspend fun renew() {
        val tokens = l.credentials.tokens?.takeUnless { l.options.peek } ?: return
        val wait = Backoff()
        while (true) {
            delay(token.renewAfter(serverNow()) ?: return)
            val next = try {
                asked(tokens)
            } catch (e: GodwitException) {
                l.report(e)
                null
            }
            if (next == null || next.value == token.value) {
                delay(wait.next()) // the provider has none yet
                continue
            }
            wait.reset()
            token = next
            send(listOf(hello(first = false)))
        }
    }
}

private const val SHORTEST_BEAT = 1_000L
private const val NOT_IMPLEMENTED = 501

/** How long the server may take to close the connection after its goodbye, in milliseconds. */
private const val BYE_PATIENCE = 2_000L
