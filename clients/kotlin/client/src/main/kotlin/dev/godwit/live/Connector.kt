package dev.godwit.live

import dev.godwit.GodwitException
import dev.godwit.RefusedException
import dev.godwit.Token
import dev.godwit.UnreachableException
import kotlinx.coroutines.Job
import kotlinx.coroutines.async
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.supervisorScope
import kotlinx.coroutines.withTimeoutOrNull

/**
 * Makes one session after the other: at once after a stable one, then after random waits of up to 1 s, doubling to 5 min, or when the server
 * said, or when the network changes.
 */
internal class Connector(private val l: Listener) {
    private val network = Channel<Unit>(Channel.CONFLATED) // has an element when the network has changed and no session is welcomed
    private var opening: Job? = null // of a session
    private var openingSince = 0L
    private var networkChanged = false // while the last session was opened
    private var refusedToken = "" // if it was refused

    /** The network has changed, or the device woke up. A connect that is under way is given up soon: its network may be gone. */
    suspend fun networkChanged() {
        val live = l.live
        val opening = opening
        when {
            live != null -> live.probe()
            opening != null -> {
                networkChanged = true
                val young = l.clock.now() - openingSince < PROBE_PATIENCE // it may well use the new network
                delay(if (young) YOUNG_PATIENCE else PROBE_PATIENCE)
                opening.cancel()
            }
            else -> network.trySend(Unit)
        }
    }

    /** Returns the refusal that ends listening; null: the listener is closing. */
    suspend fun run(): RefusedException? {
        val wait = Backoff()
        var failures = 0
        while (true) {
            val start = l.clock.now()
            val session = Session(l)
            val error = session(session)
            if (l.closing) return null
            val end = End(error)
            if (end.refusal.isNotEmpty() && !(end.byToken && tokenIsNew())) return end.refused()
            if (session.welcomed && l.clock.now() - start >= STABLE) {
                failures = 0
                wait.reset()
            }
            if (networkChanged || session.probing) {
                failures = 0
                wait.reset()
            }
            // The first retry follows without a wait.
            val pause = maxOf(if (failures++ > 0 || end.busy) wait.next() else 0, end.askedMillis)
            l.tell { disconnected(error, pause) }
            if (pause(pause, end.askedMillis)) {
                failures = 0
                wait.reset()
            }
        }
    }

    /** Waits. True: not to the end, since the network has changed; [least] is waited all the same. */
    private suspend fun pause(millis: Long, least: Long): Boolean {
        if (least > 0) delay(least)
        return millis > least && network.receiveWithin(millis - least) != null
    }

    /** Runs one session and returns the reason of its end. */
    private suspend fun session(session: Session): Throwable {
        try {
            val failure = open(session)
            if (failure != null) return failure
            l.live = session
            return session.run()
        } finally {
            l.live = null
            session.end()
        }
    }

    /** Opens a session. Returns why it could not; null: it is open. */
    private suspend fun open(session: Session): Throwable? = supervisorScope {
        network.tryReceive() // of before
        networkChanged = false
        openingSince = l.clock.now()
        val attempt = async { attempt(session) }
        opening = attempt
        val inTime = withTimeoutOrNull(HANDSHAKE_TIMEOUT) { attempt.join() } != null
        opening = null
        val givenUp = attempt.isCancelled
        attempt.cancel()
        when {
            !inTime -> UnreachableException("server did not answer in ${HANDSHAKE_TIMEOUT / MILLIS} s")
            givenUp -> UnreachableException("the network changed before the server answered")
            else -> attempt.await()
        }
    }

    /** Returns why the session could not be opened; null: it is open. */
    private suspend fun attempt(session: Session): Throwable? = try {
        session.open(this)
        null
    } catch (e: Exception) {
        currentCoroutineContext().ensureActive() // a CancellationException may be the transport's own, as of a withTimeout
        e
    }

    /** The token for the next session. */
    suspend fun token(): Token {
        val c = l.credentials
        val worker = c.tokens == null && c.apiKey.isNotEmpty() && l.parts.any { it.serves }
        if (l.options.peek || worker) return Token(c.apiKey)
        val tokens = c.tokens ?: return Token("")
        return asked(tokens).also { refusedToken = it.value }
    }

    /** Whether the provider has another token than the refused one. If it fails, it is asked again at the next connect. */
    private suspend fun tokenIsNew(): Boolean {
        val tokens = l.credentials.tokens?.takeUnless { l.options.peek } ?: return false
        return try {
            (withTimeoutOrNull(HANDSHAKE_TIMEOUT) { asked(tokens) } ?: return true).value != refusedToken
        } catch (_: GodwitException) {
            true
        }
    }
}

private const val MILLIS = 1000L

/** How long connect, hello and welcome may take together, in milliseconds. */
private const val HANDSHAKE_TIMEOUT = 30 * MILLIS

/** How long a connect that had just begun may take after the network changed, in milliseconds. */
private const val YOUNG_PATIENCE = 3 * MILLIS

/** A session of this length is followed by a connect at once: otherwise a server that closes right after its welcome would be called in a loop. */
private const val STABLE = 5 * MILLIS
