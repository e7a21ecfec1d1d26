package dev.godwit.live

import dev.godwit.ListenOptions
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame

/**
 * A job of a listener beside notifications, for which another library is: objects, topics, requests. It sends frames of its own over the listener's
 * connections and takes some of the server's. The engine's coroutines call it; only [attach], [run] and [detach] belong to the caller's.
 */
internal abstract class Part {
    /** The group of the session's objects; null: the part has none. */
    open val group: String? get() = null

    /** Whether it answers as a worker, who may sign in with an API key. */
    open val serves: Boolean get() = false

    /** Refuses options that do not fit it. */
    open fun check(options: ListenOptions) {}

    /** Begins with a listener. It fails if another listener has it. */
    open suspend fun attach(listener: Listener) {}

    /** Calls the program's handlers until it is cancelled. */
    open suspend fun run() {}

    /** The listener ends: takes nothing more, and finishes what is under way. */
    open suspend fun stop() {}

    /** The listener has ended. */
    open suspend fun detach() {}

    /** What the hello and each ping say of its state; null: nothing. */
    open fun digest(): String? = null

    /** A connection begins; the server's welcome had a digest. */
    open fun welcomed(digest: String) {}

    /** The connection is lost. */
    open fun lost() {}

    /** Takes a frame of the server. False: it is for another. [pongs] have come on this connection, with this frame. */
    abstract fun take(frame: ServerFrame, pongs: Int): Boolean

    /** What to send now, after as many [pings] on this connection. [last]: nothing is sent on it afterwards. */
    abstract fun due(last: Boolean, pings: Int): Due
}

/** Frames to send now, and when there are more to send; [Long.MAX_VALUE]: when something is added. */
internal class Due(val frames: List<ClientFrame>, val againAt: Long = Long.MAX_VALUE)
