package dev.godwit

import dev.godwit.live.LARGEST_WINDOW
import dev.godwit.live.Part
import dev.godwit.wire.requireName

/** What a program may be told while it listens. Nothing else is received until a callback returns, so a callback should be quick. */
public interface ListenEvents {
    /** A session began. */
    public fun connected(welcome: Welcome) {}

    /** A connection ended or could not be made; the next try follows after [retryMillis], or as soon as the network changes. */
    public fun disconnected(error: Throwable, retryMillis: Long) {}

    /** These notifications need no longer be shown: they were settled elsewhere, replaced or withdrawn. */
    public fun recalled(ids: List<String>) {}

    /** The recipient's inbox has changed, here or elsewhere. It is also called at the start of a session if the inbox has or had items. */
    public fun inboxChanged(news: InboxNews) {}

    /** A handler threw [error], and [notification] will come again. */
    public fun handlerFailed(notification: Notification, error: Throwable) {}

    /**
     * Something failed that does not end the session: an [UndecodableException], a [FrameRefusedException], a handler of objects, topics
     * or requests, or state that could not be stored.
     */
    public fun failed(error: Throwable) {}

    /** All subjects that the session serves are in effect on this connection: later requests are delivered as long as it lasts. */
    public fun serving() {}
}

/** How to listen. Not for use by several listeners, nor to be changed while one runs. */
public class ListenOptions {
    /**
     * Names the device; notifications with ack `all` wait for each device. A second session of the same device closes the first one, which
     * then ends with a [RefusedException] of reason `replaced`.
     */
    public var device: String = ""

    /** The group of the session's objects, unless objects of another library name it. */
    public var group: String = ""

    /** How many notifications may be unacknowledged, 1 to 1,024. */
    public var window: Int = USUAL_WINDOW

    /**
     * How often a connection that is otherwise silent is heard of, 5 s to 24 h in milliseconds; 0: as the server has it, 30 s. A longer one
     * costs less battery, and a connection that died without a word is noticed later.
     */
    public var heartbeatMillis: Long = 0

    /**
     * How long acknowledgements wait so that several share a frame, 0 to 1,000 ms. After a pause of at least this length the first one is sent
     * at once; all are sent once half of the window waits. If the program is killed meanwhile, their notifications are delivered again.
     */
    public var ackDelayMillis: Long = USUAL_ACK_DELAY

    /** How many handlers of notifications run at once; 1 keeps the order. */
    public var concurrency: Int = 1

    /** Only observes, with an API key of role read: nothing is acknowledged, and the recipient does not count as connected. */
    public var peek: Boolean = false

    /**
     * Only watches, with the client's own token: nothing is acknowledged, and the recipient does not count as connected by it. So does a screen
     * that shows an inbox.
     */
    public var observe: Boolean = false

    /** Whether nothing is acknowledged. */
    internal val silent: Boolean get() = peek || observe

    /** Returns the notifications that are shown. It is asked at every connect, and the server recalls those that were settled meanwhile. */
    public var held: (() -> List<String>)? = null

    /** What the program is told. */
    public var events: ListenEvents = object : ListenEvents {}

    /** What other libraries have the listener do. */
    internal val parts = ArrayList<Part>()

    internal fun check() {
        require(window in 1..LARGEST_WINDOW) { "listen: window $window is not between 1 and $LARGEST_WINDOW" }
        require(ackDelayMillis in 0..LONGEST_ACK_DELAY) { "listen: ack delay $ackDelayMillis ms is not between 0 and $LONGEST_ACK_DELAY ms" }
        require(concurrency >= 1) { "listen: concurrency $concurrency is below 1" }
        require(heartbeatMillis >= 0) { "listen: heartbeat $heartbeatMillis ms is negative" }
        for ((what, name) in listOf("device" to device, "group" to group)) if (name.isNotEmpty()) requireName("listen: $what", name)
        for (part in parts) part.check(this)
    }
}

private const val USUAL_WINDOW = 64

/** Short compared with the server's writes to disk. */
private const val USUAL_ACK_DELAY = 5L

/** Short compared with the time until redelivery. */
private const val LONGEST_ACK_DELAY = 1000L
