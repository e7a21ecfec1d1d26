package dev.godwit.support

import dev.godwit.Delivery
import dev.godwit.GodwitClient
import dev.godwit.ListenEvents
import dev.godwit.ListenOptions
import dev.godwit.Notification
import dev.godwit.Welcome
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlin.time.Duration.Companion.minutes

/** Runs a test in real time, which is given up after a while. */
fun realTime(test: suspend CoroutineScope.() -> Unit) {
    runBlocking(Dispatchers.Default) { withTimeout(PATIENCE, test) }
}

/** What a listener of a test got. */
class Got : ListenEvents {
    val notifications = Channel<Notification>(Channel.UNLIMITED)
    val welcomes = Channel<Welcome>(Channel.UNLIMITED)
    val disconnects = Channel<Throwable>(Channel.UNLIMITED)
    val recalls = Channel<List<String>>(Channel.UNLIMITED)
    val failures = Channel<Throwable>(Channel.UNLIMITED)
    val inbox = Channel<dev.godwit.InboxNews>(Channel.UNLIMITED)
    val serving = CompletableDeferred<Unit>()

    override fun connected(welcome: Welcome) {
        welcomes.trySend(welcome)
    }

    override fun disconnected(error: Throwable, retryMillis: Long) {
        disconnects.trySend(error)
    }

    override fun recalled(ids: List<String>) {
        recalls.trySend(ids)
    }

    override fun failed(error: Throwable) {
        failures.trySend(error)
    }

    override fun inboxChanged(news: dev.godwit.InboxNews) {
        inbox.trySend(news)
    }

    override fun serving() {
        serving.complete(Unit)
    }
}

/** Listens while a test runs. */
suspend fun CoroutineScope.listening(
    client: GodwitClient,
    recipient: String,
    options: ListenOptions.() -> Unit = {},
    handler: (suspend Delivery.(Notification) -> Unit)? = null,
    test: suspend (Got) -> Unit,
) {
    val got = Got()
    val listener = launch {
        client.listen(recipient, {
            events = got
            options()
        }) { n ->
            handler?.invoke(this, n)
            got.notifications.send(n)
        }
    }
    try {
        test(got)
    } finally {
        listener.cancelAndJoin()
    }
}

private val PATIENCE = 4.minutes
