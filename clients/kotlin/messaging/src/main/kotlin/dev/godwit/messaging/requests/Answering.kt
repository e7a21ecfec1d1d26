package dev.godwit.messaging.requests

import dev.godwit.Answer
import dev.godwit.ListenOptions
import dev.godwit.Request
import dev.godwit.live.Due
import dev.godwit.live.Listener
import dev.godwit.live.Part
import dev.godwit.messaging.RequestHandler
import dev.godwit.messaging.wire.Serve
import dev.godwit.messaging.wire.Unserve
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.MOST_TO_REQUEST
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.requireName
import dev.godwit.wire.requirePattern
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancelChildren
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeoutOrNull

/** Answers the requests of a listener's sessions, in the listener's context. It outlives the caller's cancellation by the answers under way. */
internal class Answering : Part() {
    var handler: RequestHandler? = null
    var subjects: List<String> = emptyList()
    var queue = ""

    private lateinit var listener: Listener
    private lateinit var scope: CoroutineScope
    private var stopping = false
    private var unserved = false // the subjects are to be sent on this connection
    private var servingAt = 0 // the number of the pong that confirms them; 0: none does

    override val serves: Boolean get() = subjects.isNotEmpty()

    override fun check(options: ListenOptions) {
        if (queue.isNotEmpty()) requireName("listen: queue", queue)
        subjects.forEach(::requirePattern)
    }

    override suspend fun attach(listener: Listener) {
        this.listener = listener
        scope = CoroutineScope(currentCoroutineContext().minusKey(Job) + SupervisorJob())
        stopping = false
    }

    override fun welcomed(digest: String) {
        unserved = serves
        servingAt = 0
    }

    override fun due(last: Boolean, pings: Int): Due {
        if (!unserved) return Due(emptyList())
        unserved = false
        servingAt = pings + 1
        return Due(listOf(Serve(subjects, queue), listener.ping()))
    }

    override fun take(frame: ServerFrame, pongs: Int): Boolean {
        if (frame is ServerFrame.Failed && frame.field == "subjects") servingAt = 0
        if (frame is ServerFrame.Pong && servingAt in 1..pongs) {
            servingAt = 0
            listener.tell { serving() }
        }
        return frame is ServerFrame.Requested && take(frame.request)
    }

    private fun take(request: Request): Boolean {
        val handler = handler ?: return false
        if (stopping) {
            reply(request, Answer("the worker is stopping", status = UNAVAILABLE))
            return true
        }
        val left = request.deadline?.let { it.toEpochMilliseconds() - (listener.live?.serverNow() ?: listener.clock.wall()) } ?: Long.MAX_VALUE
        scope.launch {
            val answer = withTimeoutOrNull(left) { answer(handler, request) } ?: return@launch // nobody waits any more
            withContext(listener.engine) { reply(request, answer) }
        }
        return true
    }

    private suspend fun answer(handler: RequestHandler, request: Request): Answer = try {
        handler.answer(request).also { it.check(MOST_TO_REQUEST) }
    } catch (e: Exception) {
        currentCoroutineContext().ensureActive() // a CancellationException may be the handler's own, as of a withTimeout
        listener.reported(e)
        Answer(status = FAILED)
    }

    private fun reply(request: Request, answer: Answer) = listener.outbox.add(ClientFrame.Reply(request.id, "", answer))

    /** The connection is lost: nobody waits for what is being answered. */
    override fun lost() = scope.coroutineContext.cancelChildren()

    /** Takes no more requests and waits for the answers under way. */
    override suspend fun stop() {
        stopping = true
        if (listener.live != null && serves) listener.outbox.add(Unserve(subjects, queue))
        withTimeoutOrNull(PATIENCE) { scope.coroutineContext[Job]?.children?.toList()?.joinAll() }
        lost()
    }
}

private const val FAILED = 500
private const val UNAVAILABLE = 503

/** How long answers may take when the listener ends, in milliseconds. */
private const val PATIENCE = 10_000L
