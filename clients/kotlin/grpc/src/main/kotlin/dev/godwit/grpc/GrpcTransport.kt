package dev.godwit.grpc

import dev.godwit.FrameStream
import dev.godwit.Transport
import io.grpc.CallOptions
import io.grpc.ManagedChannel
import io.grpc.MethodDescriptor
import io.grpc.okhttp.OkHttpChannelBuilder
import java.io.ByteArrayInputStream
import java.io.InputStream

/**
 * Listens over gRPC, for networks whose proxies end WebSockets: `GodwitClient(server) { transport(GrpcTransport("push.example.org", 50051)) }`. The
 * client's other calls stay with HTTP.
 *
 * Each connection has a channel of its own, since a channel would put a new stream on the connection of the one before, which may be dead. A channel
 * needs neither keep-alive nor retries: the session has its own.
 *
 * @param channel makes the channel of one connection, with the credentials and proxies that it needs
 */
public class GrpcTransport(private val channel: () -> ManagedChannel) : Transport {
    /**
     * Reaches a gRPC port of the server over TLS.
     *
     * @param plaintext without TLS, for tests
     */
    @JvmOverloads
    public constructor(host: String, port: Int, plaintext: Boolean = false) : this({
        OkHttpChannelBuilder.forAddress(host, port).apply { if (plaintext) usePlaintext() }.build()
    })

    override suspend fun open(): FrameStream {
        val channel = channel()
        return GrpcStream(channel, channel.newCall(CONNECT, CallOptions.DEFAULT)).apply { start() }
    }

    private companion object {
        val CONNECT: MethodDescriptor<ByteArray, ByteArray> = MethodDescriptor.newBuilder(Bytes, Bytes)
            .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
            .setFullMethodName("godwit.v1.Client/Connect")
            .build()
    }
}

/** Frames come and go encoded: the library decodes them as it does those of a WebSocket. */
private object Bytes : MethodDescriptor.Marshaller<ByteArray> {
    override fun stream(value: ByteArray): InputStream = ByteArrayInputStream(value)

    override fun parse(stream: InputStream): ByteArray = stream.readBytes()
}
