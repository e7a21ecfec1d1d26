package dev.godwit.support

import dev.godwit.Delivery
import dev.godwit.GodwitException
import dev.godwit.ListenOptions
import dev.godwit.NetworkMonitor
import dev.godwit.Notification
import dev.godwit.NotificationHandler
import dev.godwit.Token
import dev.godwit.UnreachableException
import dev.godwit.Welcome
import dev.godwit.live.Clock
import dev.godwit.live.Connection
import dev.godwit.live.Credentials
import dev.godwit.live.Listener
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ClosedReceiveChannelException
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.StandardTestDispatcher
import kotlinx.coroutines.test.TestCoroutineScheduler
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.runCurrent
import kotlin.time.Instant

/** One connection to a server that the test plays. */
internal class Scripted : Connection {
    private val toClient = Channel<ServerFrame>(Channel.UNLIMITED)
    val sent = ArrayList<ClientFrame>()
    val toServer = Channel<ClientFrame>(Channel.UNLIMITED)
    var finished = false
        private set
    var aborted = false
        private set

    override fun send(frames: List<ClientFrame>) {
        sent += frames
        frames.forEach(toServer::trySend)
    }

    override suspend fun receive(): ServerFrame = try {
        toClient.receive()
    } catch (e: ClosedReceiveChannelException) {
        throw UnreachableException("closed", e)
    }

    override suspend fun finish() {
        finished = true
        toClient.close()
    }

    override fun abort() {
        aborted = true
        toClient.close()
    }

    fun say(frame: ServerFrame) {
        toClient.trySend(frame)
    }

    fun welcome(serverTime: Instant? = null, digest: String = "") =
        say(ServerFrame.Welcomed(Welcome("s", "rides", "driver-42", 30_000, serverTime, digest, 0, null)))

    fun notify(id: String) = say(ServerFrame.Notified(Notification(id)))

    fun end(error: GodwitException = UnreachableException("cut")) {
        toClient.close(error)
    }

    /** Removes what the client has sent so far and returns the ids that it acknowledged. */
    fun acks(): List<String> = sent.filterIsInstance<ClientFrame.Ack>().flatMap { it.ids }.also { sent.clear() }

    fun nacks(): List<ClientFrame.Nack> = sent.filterIsInstance<ClientFrame.Nack>()
}

/** A listener in virtual time, and the server that the test plays. */
@OptIn(ExperimentalCoroutinesApi::class)
internal class Script(private val test: TestScope, private val play: suspend Script.(n: Int, c: Scripted) -> Unit = { _, c -> c.welcome() }) {
    val connections = ArrayList<Scripted>()
    var tokens: (suspend () -> Token)? = { Token("t") }
    var monitor: NetworkMonitor? = null
    val options = ListenOptions()
    val outcome = CompletableDeferred<Throwable>()
    private lateinit var job: Job

    val clock = VirtualClock(test.testScheduler)

    fun listener(handler: (suspend Delivery.(Notification) -> Unit)?) = Listener(
        Credentials("rides", "driver-42", tokens, ""),
        handler?.let { NotificationHandler { n -> it(n) } },
        options,
        {
            Scripted().also {
                connections += it
                play(connections.size, it)
            }
        },
        StandardTestDispatcher(test.testScheduler),
        clock,
        monitor,
    )

    fun listen(handler: (suspend Delivery.(Notification) -> Unit)?): Script {
        options.check()
        val listener = listener(handler)
        job = test.launch {
            try {
                listener.run()
            } catch (e: GodwitException) {
                outcome.complete(e)
            } catch (e: CancellationException) {
                outcome.complete(e)
                throw e
            }
        }
        test.runCurrent()
        return this
    }

    val last: Scripted get() = connections.last()

    /** Ends the listener as a program does. */
    suspend fun end() {
        job.cancel()
        job.join()
    }
}

@OptIn(ExperimentalCoroutinesApi::class)
internal class VirtualClock(private val scheduler: TestCoroutineScheduler) : Clock() {
    /** How much longer the device slept than its own clock shows. */
    var slept = 0L

    override fun now(): Long = scheduler.currentTime

    override fun wall(): Long = START + scheduler.currentTime + slept

    companion object {
        const val START = 1_795_219_200_000L
    }
}
