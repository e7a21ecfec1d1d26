package dev.godwit.wire

import dev.godwit.InboxNews
import dev.godwit.Message
import dev.godwit.Notification
import dev.godwit.Request
import dev.godwit.Signal
import dev.godwit.UndecodableException
import dev.godwit.Welcome

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
