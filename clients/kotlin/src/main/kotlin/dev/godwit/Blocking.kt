package dev.godwit

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.runInterruptible
import kotlinx.coroutines.withTimeoutOrNull
import java.util.concurrent.TimeUnit

/** The calls of back ends for programs without coroutines, as Java's. Each blocks its thread until it has returned, or is interrupted. */
public class BlockingGodwit(private val client: GodwitClient) {
    /** See [GodwitClient.publish]. */
    @Throws(GodwitException::class)
    public fun publish(publication: Publication): Receipt = runBlocking { client.publish(publication) }

    /** See [GodwitClient.publishTo]. */
    @Throws(GodwitException::class)
    public fun publishTo(recipients: List<String>, publication: Publication): List<Receipt> = runBlocking { client.publishTo(recipients, publication) }

    /** See [GodwitClient.publishBatch]. */
    @Throws(GodwitException::class)
    public fun publishBatch(publications: List<Publication>): List<Receipt> = runBlocking { client.publishBatch(publications) }

    /** See [GodwitClient.status]. */
    @Throws(GodwitException::class)
    public fun status(id: String, to: String): Status = runBlocking { client.status(id, to) }

    /** Waits until one recipient's copy has settled, and returns its status; null: it has not in time. */
    @Throws(GodwitException::class)
    public fun awaitSettled(id: String, to: String, timeout: Long, unit: TimeUnit): Status? =
        runBlocking { withTimeoutOrNull(unit.toMillis(timeout)) { client.awaitSettled(id, to) } }

    /** See [GodwitClient.recall]. */
    @Throws(GodwitException::class)
    public fun recall(id: String, vararg to: String): Unit = runBlocking { client.recall(id, *to) }

    /** See [GodwitClient.putObject]. */
    @JvmOverloads
    @Throws(GodwitException::class)
    public fun putObject(group: String, name: String, payload: ByteArray, contentType: String = "", version: Long = 0): PutResult =
        runBlocking { client.putObject(group, name, payload, contentType, version) }

    /** See [GodwitClient.getObject]. */
    @Throws(GodwitException::class)
    public fun getObject(group: String, name: String): StoredObject = runBlocking { client.getObject(group, name) }

    /** See [GodwitClient.publishMessage]. */
    @Throws(GodwitException::class)
    public fun publishMessage(topic: String, data: ByteArray, contentType: String): Unit = runBlocking { client.publishMessage(topic, data, contentType) }

    /** See [GodwitClient.ask]. */
    @Throws(GodwitException::class)
    public fun ask(subject: String, data: ByteArray, contentType: String, timeoutMillis: Long): Answer =
        runBlocking { client.ask(subject, data, contentType, timeoutMillis) }

    /** See [GodwitPush.flush]. */
    @Throws(GodwitException::class)
    public fun flush(push: GodwitPush): Unit = runBlocking { push.flush() }
}

/** Handlers of programs without coroutines. Their threads are interrupted instead of a coroutine cancelled. */
public object Blocking {
    /** Handles one version of an object, see [SignalHandler]. */
    public fun interface Signals {
        /** Handles [signal]. */
        @Throws(Exception::class)
        public fun handle(signal: Signal)
    }

    /** Handles one message of a topic, see [MessageHandler]. */
    public fun interface Messages {
        /** Handles [message]. */
        @Throws(Exception::class)
        public fun handle(message: Message)
    }

    /** Answers one request, see [RequestHandler]. */
    public fun interface Requests {
        /** Answers [request]. */
        @Throws(Exception::class)
        public fun answer(request: Request): Answer
    }

    /** A handler for [Objects.register]. */
    @JvmStatic
    public fun signals(handler: Signals): SignalHandler = SignalHandler { runInterruptible(Dispatchers.IO) { handler.handle(it) } }

    /** A handler for [Topics]. */
    @JvmStatic
    public fun messages(handler: Messages): MessageHandler = MessageHandler { runInterruptible(Dispatchers.IO) { handler.handle(it) } }

    /** A handler for [ListenOptions.requests]. */
    @JvmStatic
    public fun requests(handler: Requests): RequestHandler = RequestHandler { runInterruptible(Dispatchers.IO) { handler.answer(it) } }
}
