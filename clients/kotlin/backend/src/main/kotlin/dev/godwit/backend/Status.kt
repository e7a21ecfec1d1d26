package dev.godwit.backend

import dev.godwit.Answer
import dev.godwit.http.problemOf
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.readContent
import kotlin.time.Instant

/** Confirms that a notification is on the server's disk, or says why this copy was refused. */
public class Receipt internal constructor(
    /** The notification's id. */
    public val id: String,
    /** The recipient. */
    public val to: String,
    /** `stored`, or `scheduled`; empty if it was refused. */
    public val status: String,
    /** It was published before: nothing was sent again. */
    public val duplicate: Boolean,
    /** When it is no longer delivered. */
    public val expiresAt: Instant?,
    /** Why this copy was refused; null: it was not. */
    public val error: Throwable?,
) {
    /** Names the notification and its recipient. */
    override fun toString(): String = "Receipt($id to $to: ${error?.message ?: status})"
}

internal fun receiptOf(m: JsonMembers) =
    Receipt(m.string("id"), m.string("to"), m.string("status"), m.boolean("duplicate"), m.time("expires_at"), m.members("error")?.let { problemOf(it) })

/** The state of one recipient's copy of a notification. The time of an event that has not happened is null. */
public class Status internal constructor(m: JsonMembers) {
    /** The notification's id. */
    public val id: String = m.string("id")

    /** The recipient. */
    public val to: String = m.string("to")

    /** `scheduled stored delivered acked replied expired replaced recalled failed gathered digested`. */
    public val status: String = m.string("status")

    /** `any`, `all` or `none`. */
    public val ack: String = m.string("ack")

    /** The number among the recipient's notifications; 0 while scheduled. */
    public val seq: Long = m.long("seq")

    /** When it was published. */
    public val createdAt: Instant? = m.time("created_at")

    /** When it is no longer delivered. */
    public val expiresAt: Instant? = m.time("expires_at")

    /** When it was first delivered; may lag, and be lost in a crash. */
    public val deliveredAt: Instant? = m.time("delivered_at")

    /** When it settled. */
    public val settledAt: Instant? = m.time("settled_at")

    /** When it was acknowledged. */
    public val ackedAt: Instant? = m.time("acked_at")

    /** How often it was delivered; may lag, and be lost in a crash. */
    public val attempts: Int = m.int("attempts")

    /** The recipient's answer; null: there is none. */
    public val reply: Answer? = m.members("reply")?.let {
        val content = readContent(it, "data")
        Answer(content.data, content.type, it.int("status"))
    }

    /** Whether the status is final. */
    public val settled: Boolean get() = if (status == "delivered") ack == "none" else status !in setOf("scheduled", "stored", "gathered")

    /** Names the notification, its recipient and the status. */
    override fun toString(): String = "Status($id to $to: $status)"
}
