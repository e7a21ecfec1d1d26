package dev.godwit.live

import dev.godwit.GodwitException
import dev.godwit.UnreachableException
import dev.godwit.http.problemOf
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.decodeFrame
import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ClosedReceiveChannelException
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.suspendCancellableCoroutine
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import okio.ByteString
import okio.ByteString.Companion.toByteString
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/** Connects by WebSocket. */
internal class WebSocketDialer(private val http: OkHttpClient, private val server: HttpUrl) : Dialer {
    override suspend fun dial(): Connection {
        val url = server.newBuilder().addPathSegments("v1/connect").build()
        val request = Request.Builder().url(url).header("Sec-WebSocket-Protocol", PROTOCOLS).build()
        return suspendCancellableCoroutine { opened ->
            val connection = WebSocketConnection(opened)
            val socket = http.newWebSocket(request, connection)
            opened.invokeOnCancellation { socket.cancel() }
        }
    }
}

/** A connection over OkHttp's WebSocket, whose thread decodes the frames. */
internal class WebSocketConnection(private val opened: CancellableContinuation<Connection>) :
    WebSocketListener(),
    Connection {
    private val frames = Channel<ServerFrame>(AHEAD)
    private val closed = Channel<Unit>(Channel.CONFLATED)

    @Volatile private var socket: WebSocket? = null

    @Volatile private var proto = false

    override fun onOpen(webSocket: WebSocket, response: Response) {
        proto = response.header("Sec-WebSocket-Protocol") == PROTO
        socket = webSocket
        if (opened.isActive) opened.resume(this)
    }

    override fun onMessage(webSocket: WebSocket, text: String) = take(decodeFrame(text))

    override fun onMessage(webSocket: WebSocket, bytes: ByteString) = take(decodeFrame(bytes.toByteArray()))

    /** Waits for the engine if it is behind, and so the server. */
    private fun take(frame: ServerFrame) {
        frames.trySendBlocking(frame)
    }

    override fun onClosing(webSocket: WebSocket, code: Int, reason: String) {
        webSocket.close(NORMAL, null)
        ended(ClosedException(code, reason))
    }

    override fun onClosed(webSocket: WebSocket, code: Int, reason: String) = ended(ClosedException(code, reason))

    override fun onFailure(webSocket: WebSocket, t: Throwable, response: Response?) {
        val refused = response != null && response.code != SWITCHING_PROTOCOLS
        val error = if (refused) problemOf(checkNotNull(response)) else UnreachableException("connection lost: ${t.message ?: t.javaClass.simpleName}", t)
        if (opened.isActive) opened.resumeWithException(error)
        ended(error)
    }

    private fun ended(error: GodwitException) {
        frames.close(error)
        closed.trySend(Unit)
    }

    override fun send(frames: List<ClientFrame>) {
        val socket = socket ?: return
        for (frame in frames) {
            val sent = if (proto) socket.send(frame.proto().toByteString()) else socket.send(frame.json())
            if (!sent) {
                this.frames.close(UnreachableException("connection lost: it takes no more"))
                return
            }
        }
    }

    override suspend fun receive(): ServerFrame = try {
        frames.receive()
    } catch (e: ClosedReceiveChannelException) {
        throw UnreachableException("connection was closed", e)
    }

    override suspend fun finish() {
        socket?.close(NORMAL, null)
        closed.receiveWithin(FINISH_PATIENCE)
    }

    override fun abort() {
        socket?.cancel()
        frames.close()
    }
}

private const val PROTO = "godwit.v1.proto"

/** The subprotocols; the first costs both sides less and is preferred. */
private const val PROTOCOLS = "$PROTO, godwit.v1.json"

/** How many frames are read ahead of the engine. */
private const val AHEAD = 64
private const val NORMAL = 1000
private const val SWITCHING_PROTOCOLS = 101

/** How long the server may take to confirm a close, in milliseconds. */
private const val FINISH_PATIENCE = 1_000L
