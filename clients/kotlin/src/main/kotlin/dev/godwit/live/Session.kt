package dev.godwit.live

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
    private val objects = l.options.objects
    private val topics = l.options.topics
    private var connection: Connection? = null
    private var welcome: Welcome? = null
    private var token = Token("")
    private var heartbeat = Heartbeat(1, false, 0, l.clock)
    private var helloAt = 0L
    private var welcomedAt = 0L
    private var pings = 0 // sent
    private var pongs = 0 // received
    private var servingAt = 0 // the number of the pong that confirms the subjects; 0: none does

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
        group = objects?.group ?: l.options.group,
        device = l.options.device,
        digest = if (first) objects?.digest().orEmpty() else "",
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
        heartbeat = Heartbeat(maxOf(w.heartbeatMillis, SHORTEST_BEAT), objects != null, welcomedAt - helloAt, l.clock)
    }

    /** Runs the welcomed session and returns the reason of its end. */
    suspend fun run(): Throwable = coroutineScope {
        val c = checkNotNull(connection)
        val w = checkNotNull(welcome)
        objects?.welcomed(w.digest)
        topics?.welcomed()
        l.tell { connected(w) }
        w.inbox?.let { l.tell { inboxChanged(it) } }
        if (l.options.subjects.isNotEmpty()) {
            servingAt = pings + 1
            send(listOf(ClientFrame.Serve(l.options.subjects, l.options.queue), ping()))
        }
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
        l.answering.lost()
        objects?.lost()
        topics?.lost()
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
            is ServerFrame.Requested -> l.answering.take(f.request, serverNow())
            is ServerFrame.Messaged -> topics?.take(f)
            is ServerFrame.Undecodable -> l.undecodable(f.error)
            is ServerFrame.Failed -> failed(f)
            is ServerFrame.Pong -> pong(f)
            is ServerFrame.Welcomed -> objects?.frame(ServerFrame.Pong(f.welcome.digest)) // of a renewed hello
            is ServerFrame.Signalled, is ServerFrame.Registered, is ServerFrame.RegistrationFailed -> objects?.frame(f)
            is ServerFrame.Goodbye, ServerFrame.Unknown -> Unit
        }
    }

    private fun pong(f: ServerFrame.Pong) {
        pongs++
        topics?.pong(pongs)
        objects?.frame(f)
        if (servingAt in 1..pongs) {
            servingAt = 0
            l.tell { serving() }
        }
    }

    private fun failed(f: ServerFrame.Failed) {
        if (f.field == "subjects") servingAt = 0
        if (topics?.refuse(f) != true) l.report(FrameRefusedException(f.code, f.field, f.message))
    }

    private fun ping() = objects?.ping() ?: ClientFrame.Ping()

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
                Heartbeat.Verdict.PING -> send(listOf(ping()))
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
        val registrations = objects?.take(last)
        val frames = own.frames + registrations?.frames.orEmpty()
        val subscriptions = topics?.take(pings + frames.count { it is ClientFrame.Ping }, ::ping)
        send(frames + subscriptions?.frames.orEmpty())
        return minOf(own.againAt, registrations?.againAt ?: Long.MAX_VALUE, subscriptions?.againAt ?: Long.MAX_VALUE)
    }

    /** The server's time, which the device's clock need not agree with. */
    private fun serverNow(): Long {
        val at = welcome?.serverTime?.toEpochMilliseconds() ?: return l.clock.wall()
        return at + l.clock.now() - welcomedAt
    }

    /** Gets a new token before the present one expires, and sends it in another hello. */
    private suspend fun renew() {
        val tokens = l.credentials.tokens?.takeUnless { l.options.peek } ?: return
        val wait = Backoff.ofConnections()
        while (true) {
            delay(token.renewAfter(serverNow()) ?: return)
            val next = try {
                Connector.asked(tokens)
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

    private companion object {
        const val SHORTEST_BEAT = 1_000L

        /** How long the server may take to close the connection after its goodbye, in milliseconds. */
        const val BYE_PATIENCE = 2_000L
    }
}
