package dev.godwit.wire

import dev.godwit.InboxMarked
import dev.godwit.InboxNews
import dev.godwit.Message
import dev.godwit.Notification
import dev.godwit.Priority
import dev.godwit.Request
import dev.godwit.Signal
import dev.godwit.Welcome
import dev.godwit.isName
import kotlin.time.Instant

/** Decodes frames of the subprotocol godwit.v1.proto, whose numbers are those of client.proto. It never throws: what cannot be read is a frame that says so. */
internal object ProtoServerFrames {
    private const val NOTIFICATION = 2
    private const val OBJECT = 6

    fun decode(bytes: ByteArray): ServerFrame {
        val frame = ProtoFields(bytes)
        val number = frame.lastMessage
        val m = frame.message(number) ?: return if (frame.whole) ServerFrame.Unknown else undecodable("frame: is not protobuf")
        return try {
            val decoded = decode(number, m)
            if (frame.whole && m.whole) decoded else undecodable("frame: is not protobuf", number, m)
        } catch (e: MemberException) {
            undecodable(e.message.orEmpty(), number, m)
        }
    }

    private fun decode(number: Int, m: ProtoFields): ServerFrame = when (number) {
        1 -> ServerFrame.Welcomed(welcome(m))
        NOTIFICATION -> ServerFrame.Notified(notification(m))
        3 -> ServerFrame.Recall(m.strings(1, "ids"))
        4 -> ServerFrame.Registered(m.strings(1, "objects"), m.string(3, "group"), m.string(2, "digest"))
        5 -> ServerFrame.RegistrationFailed(m.strings(1, "objects"), m.string(4, "group"), m.string(2, "code"), m.boolean(3))
        OBJECT -> ServerFrame.Signalled(signal(m))
        7 -> ServerFrame.Messaged(Message(m.string(1, "topic"), m.bytes(3), m.string(2, "content_type")), m.int(4))
        8 -> ServerFrame.Requested(request(m))
        9 -> ServerFrame.Pong(m.string(1, "digest"))
        10 -> ServerFrame.Goodbye(m.string(1, "reason"), m.long(2))
        11 -> ServerFrame.Failed(m.string(1, "code"), m.string(2, "message"), m.string(3, "field"), m.strings(4, "refused"))
        12 -> ServerFrame.InboxChanged(inbox(m))
        else -> ServerFrame.Unknown
    }

    private fun welcome(m: ProtoFields) = Welcome(
        session = m.string(1, "session"),
        app = m.string(2, "app"),
        recipient = m.string(3, "recipient"),
        heartbeatMillis = m.long(4),
        serverTime = m.time(7, "server_time"),
        digest = m.string(5, "digest"),
        registrations = m.int(6),
        inbox = m.message(8)?.let(::inbox),
    )

    private fun inbox(m: ProtoFields) = InboxNews(m.int(1), m.int(2), m.strings(3, "changed"), m.boolean(4), m.messages(5).map(::mark))

    private fun mark(m: ProtoFields) = InboxMarked(
        m.string(1, "id"),
        m.boolean(2),
        m.boolean(3),
        m.boolean(4),
        m.boolean(5),
        m.string(6, "answered"),
    )

    private fun notification(m: ProtoFields): Notification {
        val id = m.string(3, "id")
        val type = m.string(8, "content_type")
        val n = Notification(
            id = id,
            seq = m.long(1),
            title = m.string(4, "title"),
            body = m.string(5, "body"),
            category = m.string(6, "category"),
            data = inJson("data", m.bytes(7), type),
            contentType = type,
            priority = when (m.long(9)) {
                1L -> Priority.HIGH
                3L -> Priority.LOW
                else -> Priority.NORMAL
            },
            createdAt = m.time(10, "created_at"),
            expiresAt = m.time(11, "expires_at"),
            replyBy = if (m.long(12) == 0L) null else m.time(12, "reply_by"),
            attempt = m.int(2),
        )
        if (!isName(id)) throw MemberException("id", "is not a name")
        return n
    }

    private fun signal(m: ProtoFields): Signal {
        val type = m.string(6, "content_type")
        val payload = inJson("payload", m.bytes(4), type)
        return Signal(m.string(1, "group"), m.string(2, "object"), m.long(3), m.boolean(5), payload, type).also(JsonServerFrames::check)
    }

    /** Data whose type says JSON must be JSON. */
    private fun inJson(name: String, data: ByteArray, type: String): ByteArray {
        if (data.isEmpty() || type.isNotEmpty() && !isJsonType(type)) return data
        val text = data.utf8() ?: throw MemberException(name, "is not UTF-8")
        if (!isJson(text)) throw MemberException(name, "is not JSON")
        return data
    }

    private fun request(m: ProtoFields): Request {
        val fields = m.messages(6) + m.messages(10)
        return Request(
            id = m.string(1, "request_id"),
            subject = m.string(2, "subject"),
            method = m.string(3, "method"),
            path = m.string(4, "path"),
            query = m.string(5, "query"),
            headers = fields.groupBy({ it.string(1, "headers") }, { it.string(2, "headers") }),
            data = m.bytes(8),
            contentType = m.string(7, "content_type"),
            deadline = Instant.fromEpochMilliseconds(m.long(9)),
        )
    }

    private fun undecodable(reason: String, number: Int, m: ProtoFields): ServerFrame {
        fun text(field: Int) = try {
            m.string(field, "")
        } catch (_: MemberException) {
            ""
        }
        return undecodable(
            reason,
            id = if (number == NOTIFICATION) text(3) else "",
            signalled = if (number == OBJECT) text(1) + "/" + text(2) else "",
            attempt = if (number == NOTIFICATION) m.int(2) else 0,
        )
    }
}
