package dev.godwit.live

import dev.godwit.FrameStream
import dev.godwit.Transport
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.decodeFrame
import kotlinx.coroutines.channels.Channel

/** Connects by a transport of the program's. */
internal class StreamDialer(private val transport: Transport) : Dialer {
    override suspend fun dial(): Connection = StreamConnection(transport.open())
}

/** A connection over a [FrameStream]. */
internal class StreamConnection(private val stream: FrameStream) : Connection {
    private val ponged = Channel<Unit>(Channel.CONFLATED)

    override fun send(frames: List<ClientFrame>) = frames.forEach { stream.send(it.proto()) }

    override suspend fun receive(): ServerFrame {
        val frame = decodeFrame(stream.receive())
        if (frame is ServerFrame.Pong) ponged.trySend(Unit)
        return frame
    }

    /** The pong of a last ping means that the server has handled everything sent before. */
    override suspend fun finish() {
        ponged.tryReceive() // of an earlier ping
        send(listOf(ClientFrame.Ping()))
        ponged.receiveWithin(FINISH_PATIENCE)
        abort()
    }

    override fun abort() = stream.abort()
}

private const val FINISH_PATIENCE = 1_000L
