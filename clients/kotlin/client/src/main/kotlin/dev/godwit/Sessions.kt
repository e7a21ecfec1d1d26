package dev.godwit

import kotlin.time.Instant

/** What the server says at the beginning of a session. */
public class Welcome internal constructor(
    /** Secret: it authorises acknowledgements. */
    public val session: String,
    /** The app. */
    public val app: String,
    /** The recipient. */
    public val recipient: String,
    /** A connection that is silent for two of these is closed. */
    public val heartbeatMillis: Long,
    /** The server's clock. */
    public val serverTime: Instant?,
    internal val digest: String,
    /** How many objects the server has registered for this session or device. */
    public val registrations: Int,
    /** The counts of the recipient's inbox; null: it never had anything. */
    public val inbox: InboxNews?,
) {
    /** Does not print the session. */
    override fun toString(): String = "Welcome(app=$app, recipient=$recipient)"
}

/** The counts of an inbox after a change. */
public data class InboxNews(
    /** Items that came since the list was last opened. */
    public val unseen: Int,
    /** Items that are not read. */
    public val unread: Int,
    /** Ids of what has changed, at most 100. */
    public val changed: List<String>,
    /** More has changed: read the inbox again. */
    public val more: Boolean,
    /** The marks of changed items that have neither come nor gone, at most 10: who has these items need not read them again. */
    public val marked: List<InboxMarked> = emptyList(),
)

/** The marks of an item of an inbox. */
public data class InboxMarked(
    /** The id of the notification. */
    public val id: String,
    /** The list was opened since it came. */
    public val seen: Boolean,
    /** It was read. */
    public val read: Boolean,
    /** It was archived. */
    public val archived: Boolean,
    /** It stays first in the list. */
    public val pinned: Boolean,
    /** The id of the action that was chosen; empty: none was. */
    public val answered: String,
)

/** A version of an object, or that its version is unknown. */
public class Signal internal constructor(
    /** The object's group. */
    public val group: String,
    /** The object's name in its group. */
    public val name: String,
    /** From 1, and only grows. If [unknown]: the floor, which the next version exceeds; 0 if there was none. */
    public val version: Long,
    /** The latest version is unknown: fetch the object from its source. */
    public val unknown: Boolean,
    /** JSON, text or bytes, as [contentType] says, at most 4 KB; empty if there is none. */
    public val payload: ByteArray,
    /** The type of [payload]. */
    public val contentType: String,
) {
    /** [payload] as text. */
    public val text: String get() = payload.decodeToString()

    /** Names the object and its version. */
    override fun toString(): String = "Signal($group/$name ${if (unknown) "unknown" else version.toString()})"
}

/** A message of a topic. It is delivered at most once. */
public class Message internal constructor(
    /** The topic. */
    public val topic: String,
    /** JSON, text or bytes, as [contentType] says, at most 64 KB. */
    public val data: ByteArray,
    /** The type of [data]. */
    public val contentType: String,
) {
    /** [data] as text. */
    public val text: String get() = data.decodeToString()

    /** Names the topic. */
    override fun toString(): String = "Message($topic)"
}

/** A request to a worker or a client. */
public class Request internal constructor(
    internal val id: String,
    /** The subject. */
    public val subject: String,
    /** The method of a call through the gateway; else empty. */
    public val method: String,
    /** The path of a call through the gateway; else empty. */
    public val path: String,
    /** The query of a call through the gateway; else empty. */
    public val query: String,
    /** The headers, each with its values. */
    public val headers: Map<String, List<String>>,
    /** At most 1 MiB. */
    public val data: ByteArray,
    /** The type of [data]. */
    public val contentType: String,
    /** Until when the sender waits for the answer. */
    public val deadline: Instant?,
) {
    /** [data] as text. */
    public val text: String get() = data.decodeToString()

    /** Names the subject. */
    override fun toString(): String = "Request($subject)"
}

/** The answer to a request or to a notification. */
public class Answer @JvmOverloads constructor(
    /** At most 1 MiB; for a notification, 64 KB. */
    public val data: ByteArray = ByteArray(0),
    /** The type of [data]. */
    public val contentType: String = "",
    /** From 200 to 599; 0 is 200. */
    public val status: Int = 0,
    /** The headers, each with its values. */
    public val headers: Map<String, List<String>> = emptyMap(),
) {
    /** An answer in text. */
    @JvmOverloads
    public constructor(text: String, contentType: String = "text/plain; charset=utf-8", status: Int = 0) :
        this(text.encodeToByteArray(), contentType, status)

    internal fun check(most: Int) {
        require(data.size <= most) { "the answer has ${data.size} bytes; at most $most are allowed" }
        require(status == 0 || status in 200..599) { "the answer's status $status is not between 200 and 599" }
    }

    /** [data] as text. */
    public val text: String get() = data.decodeToString()

    /** Names the status. */
    override fun toString(): String = "Answer($status, ${data.size} bytes)"
}
