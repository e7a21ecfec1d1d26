package dev.godwit.grpc

import dev.godwit.FrameStream
import dev.godwit.GodwitException
import dev.godwit.RefusedException
import dev.godwit.UnreachableException
import io.grpc.ClientCall
import io.grpc.ManagedChannel
import io.grpc.Metadata
import io.grpc.Status
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ClosedReceiveChannelException

/** One stream of frames, and the channel that carries nothing else. */
internal class GrpcStream(private val channel: ManagedChannel, private val call: ClientCall<ByteArray, ByteArray>) :
    ClientCall.Listener<ByteArray>(),
    FrameStream {
    // The server sends no more than it was asked for.
    private val frames = Channel<ByteArray>(Channel.UNLIMITED)

    @Volatile private var aborted = false

    fun start() {
        call.start(this, Metadata())
        call.request(AHEAD)
    }

    override fun onMessage(message: ByteArray) {
        frames.trySend(message)
    }

    override fun onClose(status: Status, trailers: Metadata) {
        frames.close(endOf(status))
        channel.shutdown()
    }

    override fun send(frame: ByteArray) {
        if (!aborted) call.sendMessage(frame)
    }

    override suspend fun receive(): ByteArray = try {
        frames.receive().also { call.request(1) }
    } catch (e: ClosedReceiveChannelException) {
        throw UnreachableException("connection was closed", e)
    }

    override fun abort() {
        aborted = true
        call.cancel("the session has ended", null)
        channel.shutdownNow()
        frames.close()
    }
}

/** The reason of an end. A status that was made of an HTTP answer is not the server's: a proxy's, or a sign-in page's. */
internal fun endOf(status: Status): GodwitException {
    val text = listOfNotNull(status.code.name, status.description).joinToString(": ")
    val error = UnreachableException("connection lost: $text", status.cause)
    val ofProxy = status.description.orEmpty().startsWith("HTTP status code")
    return when (status.code.takeUnless { ofProxy }) {
        Status.Code.UNAUTHENTICATED -> RefusedException("unauthenticated", error)
        Status.Code.PERMISSION_DENIED -> RefusedException("forbidden", error)
        else -> error
    }
}

/** How many frames the server may send ahead of the session. */
private const val AHEAD = 64
