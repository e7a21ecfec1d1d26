package dev.godwit.backend

import dev.godwit.GodwitException
import dev.godwit.ServerException
import dev.godwit.UnreachableException
import dev.godwit.wire.MemberException
import dev.godwit.wire.ProtoFields
import io.grpc.CallOptions
import io.grpc.ClientCall
import io.grpc.Metadata
import io.grpc.MethodDescriptor
import io.grpc.Status
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ReceiveChannel
import kotlinx.coroutines.withTimeoutOrNull
import java.io.ByteArrayInputStream
import java.io.InputStream

/** One call of a gRPC method. Messages come and go encoded. */
internal class GrpcExchange(channel: io.grpc.Channel, method: MethodDescriptor<ByteArray, ByteArray>, head: Metadata) : ClientCall.Listener<ByteArray>() {
    private val call = channel.newCall(method, CallOptions.DEFAULT)
    private val came = Channel<ByteArray>(Channel.UNLIMITED) // the server sends no more than it was asked for

    /** The answers. It ends when the call has ended, with its failure. */
    val answers: ReceiveChannel<ByteArray> get() = came

    init {
        val own = Metadata().apply { merge(head) } // a call may add to it
        call.start(this, own)
        call.request(AHEAD)
    }

    @Volatile private var cancelled = false

    fun send(message: ByteArray) {
        try {
            call.sendMessage(message)
        } catch (e: IllegalStateException) {
            if (!cancelled) throw e // while the one who sends learns of it
        }
    }

    fun sendNoMore() = call.halfClose()

    fun takeOneMore() = call.request(1)

    override fun onMessage(message: ByteArray) {
        came.trySend(message)
    }

    override fun onClose(status: Status, trailers: Metadata) {
        came.close(if (status.isOk) null else errorOf(status, trailers))
    }

    fun cancel() {
        cancelled = true
        call.cancel("the caller takes no more answers", null)
    }
}

/** Carries out a call with one request and one answer. */
internal suspend fun io.grpc.Channel.unary(method: MethodDescriptor<ByteArray, ByteArray>, head: Metadata, request: ByteArray): ByteArray {
    val exchange = GrpcExchange(this, method, head)
    try {
        exchange.send(request)
        exchange.sendNoMore()
        val answer = withTimeoutOrNull(PATIENCE) { exchange.answers.receiveCatching() } ?: throw UnreachableException("reach server: it did not answer in 30 s")
        return answer.getOrNull() ?: throw answer.exceptionOrNull() ?: UnreachableException("reach server: it gave no answer")
    } finally {
        exchange.cancel()
    }
}

/** A method of godwit.v1.Publisher. */
internal fun method(name: String, streams: Boolean): MethodDescriptor<ByteArray, ByteArray> = MethodDescriptor.newBuilder(Bytes, Bytes)
    .setType(if (streams) MethodDescriptor.MethodType.BIDI_STREAMING else MethodDescriptor.MethodType.UNARY)
    .setFullMethodName("godwit.v1.Publisher/$name")
    .build()

private object Bytes : MethodDescriptor.Marshaller<ByteArray> {
    override fun stream(value: ByteArray): InputStream = ByteArrayInputStream(value)

    override fun parse(stream: InputStream): ByteArray = stream.readBytes()
}

/** The error of a failed call: the server's own if its trailers have one. */
internal fun errorOf(status: Status, trailers: Metadata): GodwitException {
    val problem = trailers[PROBLEM]
    if (problem != null) {
        try {
            return PublishFrames.problem(ProtoFields(problem))
        } catch (_: MemberException) {
            // It is as good as none.
        }
    }
    val said = status.description.orEmpty()
    val refusal = REFUSALS[status.code].takeUnless { said.startsWith("HTTP status code") } // that is a proxy's
    if (refusal != null) return ServerException(refusal, "", status.code.name, said, "", 0)
    return UnreachableException("reach server: " + listOfNotNull(status.code.name, status.description).joinToString(": "), status.cause)
}

/** Refusals before a call reaches its method. */
private val REFUSALS = mapOf(
    Status.Code.INVALID_ARGUMENT to 400,
    Status.Code.UNAUTHENTICATED to 401,
    Status.Code.PERMISSION_DENIED to 403,
    Status.Code.RESOURCE_EXHAUSTED to 429,
    Status.Code.UNIMPLEMENTED to 501,
)

private val PROBLEM = Metadata.Key.of("godwit-problem-bin", Metadata.BINARY_BYTE_MARSHALLER)

/** How long a call may take, in milliseconds. */
private const val PATIENCE = 30_000L

private const val AHEAD = 64
