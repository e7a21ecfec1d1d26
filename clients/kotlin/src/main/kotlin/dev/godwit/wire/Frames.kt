package dev.godwit.wire

import dev.godwit.Answer
import dev.godwit.InboxNews
import dev.godwit.Message
import dev.godwit.Notification
import dev.godwit.Request
import dev.godwit.Signal
import dev.godwit.UndecodableException
import dev.godwit.Welcome

/** A frame to the server. Its members have the names of the protocol. Two frames are equal if they say the same. */
internal sealed class ClientFrame {
    override fun equals(other: Any?): Boolean = other is ClientFrame && JsonClientFrames.encode(this) == JsonClientFrames.encode(other)

    override fun hashCode(): Int = JsonClientFrames.encode(this).hashCode()

    override fun toString(): String = JsonClientFrames.encode(this)

    class Hello(
        val app: String = "",
        val token: String = "",
        val recipient: String = "",
        val group: String = "",
        val device: String = "",
        val digest: String = "",
        val held: List<String> = emptyList(),
        val window: Int = 0,
        val heartbeatMillis: Long = 0,
        val observe: Boolean = false,
    ) : ClientFrame() {
        /** Does not print the token. */
        override fun toString(): String = "Hello(app=$app, recipient=$recipient, group=$group, device=$device)"
    }

    class Ack(val ids: List<String>) : ClientFrame()

    class Nack(val ids: List<String>, val afterMillis: Long = 0, val reason: String = "") : ClientFrame()

    class Register(val objects: List<String>, val group: String = "", val reset: Boolean = false, val more: Boolean = false) : ClientFrame()

    class Unregister(val objects: List<String>, val group: String = "") : ClientFrame()

    class ObjectAck(val name: String, val group: String, val version: Long) : ClientFrame()

    class Subscribe(val topics: List<String>, val queue: String = "") : ClientFrame()

    class Unsubscribe(val topics: List<String>, val queue: String = "") : ClientFrame()

    class Serve(val subjects: List<String>, val queue: String = "") : ClientFrame()

    class Unserve(val subjects: List<String>, val queue: String = "") : ClientFrame()

    /** Answers the request [requestId], or the notification [id]. */
    class Reply(val requestId: String, val id: String, val answer: Answer) : ClientFrame()

    class Ping(val digest: String = "") : ClientFrame()
}

/** A frame from the server. */
internal sealed interface ServerFrame {
    class Welcomed(val welcome: Welcome) : ServerFrame

    class Notified(val notification: Notification) : ServerFrame

    class Recall(val ids: List<String>) : ServerFrame

    class Registered(val objects: List<String>, val group: String, val digest: String) : ServerFrame

    class RegistrationFailed(val objects: List<String>, val group: String, val code: String, val transient: Boolean) : ServerFrame

    class Signalled(val signal: Signal) : ServerFrame

    /** A message, or the number of messages that were dropped before the next one. */
    class Messaged(val message: Message, val gap: Int) : ServerFrame

    class Requested(val request: Request) : ServerFrame

    class Pong(val digest: String) : ServerFrame

    class Goodbye(val reason: String, val retryAfterMillis: Long) : ServerFrame

    /** The server's error about one frame, of whose [field] it refused some patterns. */
    class Failed(val code: String, val message: String, val field: String, val refused: List<String>) : ServerFrame

    class InboxChanged(val news: InboxNews) : ServerFrame

    /** A frame that cannot be decoded. */
    class Undecodable(val error: UndecodableException) : ServerFrame

    /** A frame of a later server. */
    object Unknown : ServerFrame
}
