package dev.godwit

import dev.godwit.http.Api
import dev.godwit.live.Clock
import dev.godwit.live.Credentials
import dev.godwit.live.Listener
import dev.godwit.live.StreamDialer
import dev.godwit.live.WebSocketDialer
import dev.godwit.live.asked
import dev.godwit.wire.requireName
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.filterNotNull
import kotlinx.coroutines.runInterruptible
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock
import okhttp3.HttpUrl
import okhttp3.HttpUrl.Companion.toHttpUrlOrNull
import okhttp3.OkHttpClient
import java.util.concurrent.TimeUnit

/**
 * Calls one server, or a cluster behind one address. It may be used by many threads.
 *
 * ```
 * val client = GodwitClient("https://godwit.example.org") {
 *     app("rides")
 *     tokens { Token(fetchToken()) }
 * }
 * client.listen("driver-42") { notification -> show(notification) }
 * ```
 */
public class GodwitClient private constructor(builder: Builder) : AutoCloseable {
    private val server = builder.server
    internal val app: String = builder.app
    private val key = builder.apiKey
    private val tokens = builder.tokens
    private val monitor = builder.monitor
    private val own = builder.http == null
    private val http = builder.http ?: OkHttpClient()
    private val dialer = builder.transport?.let(::StreamDialer) ?: WebSocketDialer(http, server)

    internal val api: Api = Api(http, server, key, builder.attempts, builder.timeoutMillis, builder.onRetry)

    /**
     * Receives a recipient's notifications until the coroutine is cancelled. When a connection fails or ends, it connects again: at once after a
     * stable one, then after random waits of up to 1 s, doubling to 5 min, or when the server said, or when the [NetworkMonitor] tells of a change.
     * However often a notification is delivered, it is handled once, within the last 8,192. Handlers run in the caller's context. It returns after the
     * running handlers have returned and their acknowledgements were sent.
     *
     * @param handler null: the recipient's notifications are ignored, for programs that use only objects, topics or requests
     * @throws RefusedException if the server refuses the client
     */
    public suspend fun listen(recipient: String, options: ListenOptions, handler: NotificationHandler?): Nothing {
        requireName("listen: recipient", recipient)
        options.check()
        require(!options.peek || key.isNotEmpty()) { "listen: peek needs an API key with role read" }
        val credentials = Credentials(app, recipient, tokens, key)
        Listener(credentials, handler, options, dialer, Dispatchers.Default.limitedParallelism(1), Clock(), monitor).run()
    }

    /** [listen] with options that are set in place. */
    public suspend fun listen(recipient: String, options: ListenOptions.() -> Unit = {}, handler: NotificationHandler?): Nothing =
        listen(recipient, ListenOptions().apply(options), handler)

    /**
     * A recipient's notifications. Each is acknowledged when the collector asks for the next one; that which ends the collection (`first`, `take`)
     * is not, and neither is one whose collector failed. With `buffer` they are acknowledged when they are buffered.
     */
    public fun notifications(recipient: String, options: ListenOptions.() -> Unit = {}): Flow<Notification> = channelFlow<Notification?> {
        val one = Mutex()
        listen(recipient, options) { n ->
            one.withLock {
                send(n)
                send(null) // is taken when the collector asks for the next one
            }
        }
    }.buffer(Channel.RENDEZVOUS).filterNotNull()

    /** [listen] for programs without coroutines. The handler runs on threads of its own. */
    @JvmOverloads
    public fun start(recipient: String, options: ListenOptions = ListenOptions(), handler: BlockingHandler?): Listening = Listening {
        listen(recipient, options, handler?.let(::suspending))
    }

    private fun suspending(handler: BlockingHandler) = NotificationHandler { n ->
        var handled = false
        try {
            runInterruptible(Dispatchers.IO) {
                handler.handle(this, n)
                handled = true
            }
        } catch (e: CancellationException) {
            if (!handled) throw e // it was cancelled after it had returned
        }
    }

    /** Carries out a call with the key, or else with the recipient's token. */
    internal suspend fun authorised(call: ApiCall): String {
        val tokens = tokens?.takeUnless { api.hasKey } ?: return api.call(call)
        return api.call(call, asked(tokens).value)
    }

    /** Ends what the client keeps open, unless it uses an HTTP client of the program's. Listeners are not ended: cancel or close them before. */
    override fun close() {
        if (!own) return
        http.dispatcher.executorService.shutdown()
        http.connectionPool.evictAll()
    }

    /** Makes a client. */
    public class Builder
    /**
     * @param server an http or https URL, for example `https://godwit.example.org`
     * @throws IllegalArgumentException if it is none
     */
    constructor(
        server: String,
    ) {
        internal val server: HttpUrl
        internal var app = ""
        internal var apiKey = ""
        internal var tokens: (suspend () -> Token)? = null
        internal var monitor: NetworkMonitor? = null
        internal var http: OkHttpClient? = null
        internal var transport: Transport? = null
        internal var attempts = USUAL_ATTEMPTS
        internal var timeoutMillis = USUAL_TIMEOUT
        internal var onRetry: ((Throwable, Long) -> Unit)? = null

        init {
            val url = requireNotNull(server.toHttpUrlOrNull()) { "server address \"$server\" is not an http or https URL" }
            require('?' !in server && '#' !in server) { "server address \"$server\" must end before ? and #: paths are added to it" }
            this.server = url.newBuilder().encodedPath(url.encodedPath.trimEnd('/') + "/").build()
        }

        /** Names the app. It is needed if the server has several and neither key nor token names one. */
        public fun app(name: String): Builder = apply { app = name }

        /** Sets a back end's API key. Publishing needs role publish; status and events need role read. Never put a key into an app for people. */
        public fun apiKey(key: String): Builder = apply { apiKey = key }

        /** Sets a recipient's fixed token. Prefer [tokens] if tokens expire. */
        public fun token(value: String): Builder = tokens { Token(value) }

        /** Sets where a recipient's tokens come from. */
        public fun tokens(provider: TokenProvider): Builder = apply { tokens = { runInterruptible(Dispatchers.IO) { provider.token() } } }

        /** [tokens] from a coroutine. */
        public fun suspendingTokens(provider: suspend () -> Token): Builder = apply { tokens = provider }

        /** Sets who tells of changes of the device's network. */
        public fun networkMonitor(monitor: NetworkMonitor): Builder = apply { this.monitor = monitor }

        /** Replaces the HTTP client, for proxies, certificates or tests. */
        public fun httpClient(http: OkHttpClient): Builder = apply { this.http = http }

        /** Replaces WebSocket for listening. The module `godwit-client-grpc` has a transport over gRPC. */
        public fun transport(transport: Transport): Builder = apply { this.transport = transport }

        /** Sets the number of tries of each request over HTTP, including the first; at least 1. */
        public fun attempts(n: Int): Builder = apply { attempts = maxOf(n, 1) }

        /** Limits one try of a request over HTTP. */
        public fun requestTimeout(timeout: Long, unit: TimeUnit): Builder = apply { timeoutMillis = unit.toMillis(timeout) }

        /** Is called before each retry of a request over HTTP, with the failure and the wait in milliseconds. */
        public fun onRetry(callback: (Throwable, Long) -> Unit): Builder = apply { onRetry = callback }

        /** Makes the client. */
        public fun build(): GodwitClient = GodwitClient(this)
    }

    /** Makes clients. */
    public companion object {
        /** Returns a client for the server at an http or https URL. */
        public operator fun invoke(server: String, configure: Builder.() -> Unit = {}): GodwitClient = Builder(server).apply(configure).build()
    }
}

private const val USUAL_ATTEMPTS = 6
private const val USUAL_TIMEOUT = 30_000L // milliseconds
