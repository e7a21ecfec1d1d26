package dev.godwit

/**
 * Reaches the server by another way than WebSocket, see [GodwitClient.Builder.transport]. Frames are those of the protocol, in protobuf: `ClientFrame`
 * goes to the server, `ServerFrame` comes from it.
 */
public fun interface Transport {
    /**
     * Begins a connection. It is cancelled if it takes too long.
     *
     * @throws UnreachableException if the server cannot be reached
     */
    public suspend fun open(): FrameStream
}

/** One connection of a [Transport]. A session calls one method at a time, and [abort] at any time. */
public interface FrameStream {
    /** Hands a frame to the network and returns at once. If the connection is lost, [receive] says so. */
    public fun send(frame: ByteArray)

    /**
     * Returns the next frame.
     *
     * @throws RefusedException if the server does not accept this client
     * @throws GodwitException for any other end of the connection
     */
    public suspend fun receive(): ByteArray

    /** Releases what the connection has. It may be called more than once. */
    public fun abort()
}
