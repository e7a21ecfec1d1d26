package dev.godwit.wire

import dev.godwit.InboxMarked
import dev.godwit.InboxNews
import dev.godwit.Message
import dev.godwit.Notification
import dev.godwit.Priority
import dev.godwit.Request
import dev.godwit.Signal
import dev.godwit.UndecodableException
import dev.godwit.Welcome
import dev.godwit.isName

/** Decodes frames of the subprotocol godwit.v1.json. It never throws: what cannot be read is a frame that says so. */
internal object JsonServerFrames {
    fun decode(text: String): ServerFrame {
        val frame = splitFrame(text) ?: return undecodable("frame: is no frame")
        val m = frame.members
        val decode = decoders[frame.name] ?: return ServerFrame.Unknown
        return try {
            val decoded = decode(m)
            if (frame.whole) decoded else undecodable("frame: breaks off, or something follows it", m, frame.name)
        } catch (e: MemberException) {
            undecodable(e.message.orEmpty(), m, frame.name)
        }
    }

    private val decoders: Map<String, (JsonMembers) -> ServerFrame> = mapOf(
        "welcome" to { m -> welcome(m) },
        "notification" to { m -> ServerFrame.Notified(notification(m)) },
        "recall" to { m -> ServerFrame.Recall(m.strings("ids")) },
        "registered" to { m -> ServerFrame.Registered(m.strings("objects"), m.string("group"), m.string("digest")) },
        "registration_failed" to { m ->
            ServerFrame.RegistrationFailed(m.strings("objects"), m.string("group"), m.string("code"), m.boolean("transient"))
        },
        "object" to { m -> ServerFrame.Signalled(signal(m)) },
        "message" to { m -> message(m) },
        "request" to { m -> ServerFrame.Requested(request(m)) },
        "pong" to { m -> ServerFrame.Pong(m.string("digest")) },
        "goodbye" to { m -> ServerFrame.Goodbye(m.string("reason"), m.millis("retry_after")) },
        "error" to { m -> ServerFrame.Failed(m.string("code"), m.string("message"), m.string("field"), m.strings("refused")) },
        "inbox" to { m -> ServerFrame.InboxChanged(inbox(m)) },
    )

    private fun welcome(m: JsonMembers) = ServerFrame.Welcomed(
        Welcome(
            session = m.string("session"),
            app = m.string("app"),
            recipient = m.string("recipient"),
            heartbeatMillis = m.millis("heartbeat"),
            serverTime = m.time("server_time"),
            digest = m.string("digest"),
            registrations = m.int("registrations"),
            inbox = m.members("inbox")?.let(::inbox),
        ),
    )

    private fun inbox(m: JsonMembers) = InboxNews(
        m.int("unseen"),
        m.int("unread"),
        m.strings("changed"),
        m.boolean("more"),
        m.objects("marked").map(::mark),
    )

    private fun mark(m: JsonMembers) = InboxMarked(
        m.string("id"),
        m.boolean("seen"),
        m.boolean("read"),
        m.boolean("archived"),
        m.boolean("pinned"),
        m.string("answered"),
    )

    fun notification(m: JsonMembers): Notification {
        val id = m.string("id")
        val attempt = m.int("attempt")
        val content = Content.read(m, "data")
        return Notification(
            id = id,
            seq = m.long("seq"),
            title = m.string("title"),
            body = m.string("body"),
            category = m.string("category"),
            data = content.data,
            contentType = content.type,
            priority = Priority.of(m.string("priority")),
            createdAt = m.time("created_at"),
            expiresAt = m.time("expires_at"),
            replyBy = m.time("reply_by"),
            attempt = attempt,
        ).also { if (!isName(id)) throw MemberException("id", "is not a name") }
    }

    private fun signal(m: JsonMembers): Signal {
        val content = Content.read(m, "payload")
        return Signal(m.string("group"), m.string("object"), m.version("version"), m.boolean("unknown"), content.data, content.type).also(::check)
    }

    /** Refuses a signal whose names are none. */
    fun check(s: Signal) {
        if (!isName(s.name)) throw MemberException("object", "is not a name")
        if (s.group.isNotEmpty() && !isName(s.group)) throw MemberException("group", "is not a name")
        if (s.version < 0) throw MemberException("version", "is negative")
    }

    private fun message(m: JsonMembers): ServerFrame {
        val content = Content.read(m, "data")
        return ServerFrame.Messaged(Message(m.string("topic"), content.data, content.type), m.int("gap"))
    }

    private fun request(m: JsonMembers): Request {
        val content = Content.read(m, "data")
        val headers = m.members("headers") ?: JsonMembers(emptyMap())
        return Request(
            id = m.string("request_id"),
            subject = m.string("subject"),
            method = m.string("method"),
            path = m.string("path"),
            query = m.string("query"),
            headers = headers.names.associateWith { name ->
                try {
                    if (headers.raw(name).orEmpty().startsWith('[')) headers.strings(name) else listOf(headers.string(name))
                } catch (_: MemberException) {
                    throw MemberException("headers", "are no texts")
                }
            },
            data = content.data,
            contentType = content.type,
            deadline = m.time("deadline"),
        )
    }

    private fun undecodable(reason: String, m: JsonMembers? = null, frame: String = ""): ServerFrame {
        fun text(name: String) = try {
            m?.string(name).orEmpty()
        } catch (_: MemberException) {
            ""
        }
        return undecodable(
            reason,
            id = if (frame == "notification") text("id") else "",
            signalled = if (frame == "object") text("group") + "/" + text("object") else "",
            attempt = try {
                m?.int("attempt") ?: 0
            } catch (_: MemberException) {
                0
            },
        )
    }
}

/** A frame that says what is wrong with a notification or an object, as far as its name could be read. */
internal fun undecodable(reason: String, id: String = "", signalled: String = "", attempt: Int = 0): ServerFrame = ServerFrame.Undecodable(
    UndecodableException(id.takeIf(::isName).orEmpty(), signalled.take(LONGEST_OBJECT), cut(reason), attempt),
)

private const val LONGEST_OBJECT = 2 * 128 + 1

/** Shortens a reason to what the server accepts. */
internal fun cut(text: String): String {
    val bytes = text.wellFormed().encodeToByteArray()
    if (bytes.size <= LONGEST_REASON) return text.wellFormed()
    var end = LONGEST_REASON
    while (bytes[end].toInt() and CONTINUATION_MASK == CONTINUATION) end-- // not within a letter
    return bytes.decodeToString(0, end)
}

private const val LONGEST_REASON = 1000 // bytes
private const val CONTINUATION_MASK = 0xC0
private const val CONTINUATION = 0x80
