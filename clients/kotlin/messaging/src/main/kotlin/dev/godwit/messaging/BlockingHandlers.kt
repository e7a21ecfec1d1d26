package dev.godwit.messaging

import dev.godwit.Answer
import dev.godwit.ListenOptions
import dev.godwit.Message
import dev.godwit.Request
import dev.godwit.Signal
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runInterruptible

/** Handlers for programs without coroutines, as those in Java. Their threads are interrupted where a coroutine would be cancelled. */
public object BlockingHandlers {
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
