package dev.godwit.live

import dev.godwit.Answer
import dev.godwit.Request
import dev.godwit.RequestHandler
import dev.godwit.wire.ClientFrame
import kotlinx.coroutines.CoroutineDispatcher
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
import kotlin.coroutines.CoroutineContext

/** Answers the requests of a listener's sessions, in the listener's context. It outlives the caller's cancellation by the answers under way. */
internal class Answering(
    private val handler: RequestHandler?,
    private val outbox: Outbox,
    context: CoroutineContext,
    private val engine: CoroutineDispatcher,
    private val report: (Throwable) -> Unit,
) {
    private val scope = CoroutineScope(context.minusKey(Job) + SupervisorJob())
    private var stopping = false

    /** Has a request answered. [nowMillis] is the server's time. */
    fun take(request: Request, nowMillis: Long) {
        val handler = handler
        when {
            handler == null -> reply(request, Answer("this client answers no requests", status = NOT_IMPLEMENTED))
            stopping -> reply(request, Answer("the worker is stopping", status = UNAVAILABLE))
            else -> {
                val left = request.deadline?.let { it.toEpochMilliseconds() - nowMillis } ?: Long.MAX_VALUE
                scope.launch {
                    val answer = withTimeoutOrNull(left) { answer(handler, request) } ?: return@launch // nobody waits any more
                    inEngine { reply(request, answer) }
                }
            }
        }
    }

    private suspend fun answer(handler: RequestHandler, request: Request): Answer = try {
        handler.answer(request).also { it.check(Answer.MOST) }
    } catch (e: Exception) {
        currentCoroutineContext().ensureActive() // a CancellationException may be the handler's own, as of a withTimeout
        inEngine { report(e) }
        Answer(status = FAILED)
    }

    private suspend fun inEngine(what: () -> Unit) = withContext(engine) { what() }

    private fun reply(request: Request, answer: Answer) = outbox.add(ClientFrame.Reply(request.id, "", answer))

    /** The connection is lost: nobody waits for what is being answered. */
    fun lost() = scope.coroutineContext.cancelChildren()

    /** Takes no more requests, after [farewell], and waits for the answers under way. */
    suspend fun stop(farewell: ClientFrame?) {
        stopping = true
        farewell?.let(outbox::add)
        withTimeoutOrNull(PATIENCE) { scope.coroutineContext[Job]?.children?.toList()?.joinAll() }
        lost()
    }

    private companion object {
        const val FAILED = 500
        const val NOT_IMPLEMENTED = 501
        const val UNAVAILABLE = 503

        /** How long answers may take when the listener ends, in milliseconds. */
        const val PATIENCE = 10_000L
    }
}
