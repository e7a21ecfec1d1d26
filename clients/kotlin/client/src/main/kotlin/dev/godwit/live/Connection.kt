package dev.godwit.live

import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame

/** One connection for a session. Only the engine's coroutines call it. */
internal interface Connection {
    /** Hands frames to the network. If the connection is lost, [receive] says so. */
    fun send(frames: List<ClientFrame>)

    /** Returns the next frame, or throws the reason of the connection's end. */
    suspend fun receive(): ServerFrame

    /** Closes the connection after what was sent has reached the server, as far as it takes no longer than a second. */
    suspend fun finish()

    /** Closes the connection at once. It may be called more than once. */
    fun abort()
}

/** Opens connections. */
internal fun interface Dialer {
    suspend fun dial(): Connection
}

/** The system's time, in milliseconds. Tests have another. */
internal open class Clock {
    /** Never goes back, and may stand still while the device sleeps. */
    open fun now(): Long = System.nanoTime() / NANOS_PER_MILLI

    /** What the device takes for the time since 1970. It may jump. */
    open fun wall(): Long = System.currentTimeMillis()
}

private const val NANOS_PER_MILLI = 1_000_000
