package dev.godwit

import dev.godwit.wire.MemberException
import dev.godwit.wire.membersOf
import dev.godwit.wire.notification
import kotlin.time.Instant

/** The order of a notification in a backlog. */
public enum class Priority {
    /** Before all others; it wakes a phone that sleeps, where a push channel can. */
    HIGH,

    /** The usual one. */
    NORMAL,

    /** After all others. */
    LOW,
}

/** One notification as a recipient gets it. */
public class Notification internal constructor(
    /** Its id, by which it is handled once. */
    public val id: String,
    /** Its number among the recipient's notifications, from 1; gaps are normal. */
    public val seq: Long = 0,
    /** The title; empty if there is none. */
    public val title: String = "",
    /** The text; empty if there is none. */
    public val body: String = "",
    /** For the program; empty if there is none. */
    public val category: String = "",
    /** JSON, text or bytes, as [contentType] says; empty if there is none. */
    public val data: ByteArray = ByteArray(0),
    /** The type of [data]. */
    public val contentType: String = "",
    /** Its order in a backlog. */
    public val priority: Priority = Priority.NORMAL,
    /** When it was published. */
    public val createdAt: Instant? = null,
    /** When it is no longer delivered. */
    public val expiresAt: Instant? = null,
    /** Until when an answer is expected, see [Delivery.reply]; null: none is. */
    public val replyBy: Instant? = null,
    /** 1 for the first delivery. */
    public val attempt: Int = 1,
) {
    /** [data] as text. */
    public val text: String get() = data.decodeToString()

    /** Names the notification without its content. */
    override fun toString(): String = "Notification($id)"

    public companion object {
        /**
         * Reads a notification from the JSON of the server's frames.
         *
         * @throws IllegalArgumentException if it cannot be read
         */
        @JvmStatic
        public fun parse(json: String): Notification {
            val members = requireNotNull(membersOf(json)) { "read a notification: is not a JSON object" }
            return try {
                notification(members)
            } catch (e: MemberException) {
                throw IllegalArgumentException("read a notification: ${e.message}", e)
            }
        }
    }
}
