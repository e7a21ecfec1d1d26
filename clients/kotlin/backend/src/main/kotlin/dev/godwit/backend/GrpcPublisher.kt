package dev.godwit.backend

import dev.godwit.ServerException
import dev.godwit.UnreachableException
import dev.godwit.http.requestBackoff
import io.grpc.Channel
import io.grpc.Metadata
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.launch
import kotlinx.coroutines.sync.Semaphore
import java.util.concurrent.atomic.AtomicBoolean

/**
 * Publishes over gRPC: `GrpcPublisher(channel, key)`. A stream of [publishAll] is the fastest way into the server, since publications under way share
 * its writes to disk. The program brings the channel, of grpc-okhttp or grpc-netty, and ends it.
 *
 * @param channel leads to a gRPC port of the server
 * @param key an API key of role publish
 */
public class GrpcPublisher(private val channel: Channel, key: String) {
    private val head = Metadata().apply { put(AUTHORIZATION, "Bearer $key") }

    /**
     * Stores one notification and returns once it is on the server's disk. It is tried again after temporary failures.
     *
     * @throws ServerException if the server refuses it
     */
    public suspend fun publish(publication: Publication): Receipt {
        val receipt = publishTo(listOf(publication.to), publication).single()
        receipt.error?.let { throw it }
        return receipt
    }

    /** [publish] with a publication that is set in place. */
    public suspend fun publish(to: String, publication: Publication.() -> Unit): Receipt = publish(Publication(to).apply(publication))

    /** Stores one notification for up to [MAX_RECIPIENTS] recipients. It returns one receipt for each, in order; some may hold an error. */
    public suspend fun publishTo(recipients: List<String>, publication: Publication): List<Receipt> {
        val request = PublishFrames.encode(publication, recipients)
        return PublishFrames.decode(retried { channel.unary(PUBLISH, head, request) })
    }

    /**
     * Stores publications as they come, and emits their receipts in the same order; some may hold an error. When the stream fails, what has no
     * receipt may have been stored all the same: publish it again with the same id.
     */
    public fun publishAll(publications: Flow<Publication>): Flow<Receipt> = channelFlow {
        val room = Semaphore(AHEAD)
        val stream = GrpcExchange(this@GrpcPublisher.channel, PUBLISH_STREAM, head)
        val whole = AtomicBoolean()
        try {
            launch {
                publications.collect {
                    val request = PublishFrames.encode(it, listOf(it.to))
                    room.acquire()
                    stream.send(request)
                }
                whole.set(true)
                stream.sendNoMore()
            }
            for (answer in stream.answers) {
                room.release()
                stream.takeOneMore()
                for (receipt in PublishFrames.decode(answer)) send(receipt)
            }
            if (!whole.get()) throw UnreachableException("publish: the server ended the stream before its last publication")
        } finally {
            stream.cancel()
        }
    }

    /** Withdraws a notification from a recipient, or from all if [to] is empty, and returns the number of copies that were withdrawn. */
    @JvmOverloads
    public suspend fun recall(id: String, to: String = ""): Long {
        val request = PublishFrames.recall(id, to)
        return PublishFrames.recalled(retried { channel.unary(RECALL, head, request) })
    }

    private suspend fun retried(call: suspend () -> ByteArray): ByteArray {
        val wait = requestBackoff()
        repeat(ATTEMPTS - 1) {
            val pause = try {
                return call()
            } catch (e: ServerException) {
                if (!e.temporary) throw e
                e.retryAfterMillis
            } catch (_: UnreachableException) {
                0
            }
            delay(maxOf(wait.next(), pause))
        }
        return call()
    }

    private companion object {
        /** As over HTTP. */
        const val ATTEMPTS = 6

        /** How many publications of a stream may be without a receipt. */
        const val AHEAD = 256

        val AUTHORIZATION: Metadata.Key<String> = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER)
        val PUBLISH = method("Publish", streams = false)
        val PUBLISH_STREAM = method("PublishStream", streams = true)
        val RECALL = method("Recall", streams = false)
    }
}
