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

// Frames are decoded here whatever their subprotocol is. This never throws: what cannot be read is a frame that says so.

/** Decodes a frame of the subprotocol godwit.v1.json. */
internal fun decodeFrame(text: String): ServerFrame {
    val frame = splitFrame(text) ?: return undecodable("frame: is no frame")
    val number = NAMES.indexOf(frame.name)
    if (number < 0) return ServerFrame.Unknown
    return decodeFrame(number, frame.members, frame.whole, "frame: breaks off, or something follows it")
}

/** Decodes a frame of the subprotocol godwit.v1.proto, whose numbers are those of client.proto. */
internal fun decodeFrame(bytes: ByteArray): ServerFrame {
    val frame = ProtoFields(bytes)
    val number = frame.lastMessage
    val m = frame.message(number) ?: return if (frame.whole) ServerFrame.Unknown else undecodable(NO_PROTOBUF)
    return decodeFrame(number, m, frame.whole && m.whole, NO_PROTOBUF)
}

private fun decodeFrame(number: Int, m: FrameReader, whole: Boolean, broken: String): ServerFrame = try {
    val decoded = serverFrame(number, m)
    if (whole) decoded else undecodable(broken, number, m)
} catch (e: MemberException) {
    undecodable(e.message.orEmpty(), number, m)
}

private const val NO_PROTOBUF = "frame: is not protobuf"
private const val NOTIFICATION = 2
private const val OBJECT = 6

/** The names of frames in JSON, each at its number in protobuf. */
private val NAMES = listOf(
    "", "welcome", "notification", "recall", "registered", "registration_failed", "object", "message", "request", "pong", "goodbye", "error", "inbox",
)

private fun serverFrame(number: Int, m: FrameReader): ServerFrame = when (number) {
    1 -> ServerFrame.Welcomed(welcome(m))
    NOTIFICATION -> ServerFrame.Notified(notification(m))
    3 -> ServerFrame.Recall(m.strings(1, "ids"))
    4 -> ServerFrame.Registered(m.strings(1, "objects"), m.string(3, "group"), m.string(2, "digest"))
    5 -> ServerFrame.RegistrationFailed(m.strings(1, "objects"), m.string(4, "group"), m.string(2, "code"), m.boolean(3, "transient"))
    OBJECT -> ServerFrame.Signalled(signal(m))
    7 -> ServerFrame.Messaged(message(m), m.int(4, "gap"))
    8 -> ServerFrame.Requested(request(m))
    9 -> ServerFrame.Pong(m.string(1, "digest"))
    10 -> ServerFrame.Goodbye(m.string(1, "reason"), m.millis(2, "retry_after"))
    11 -> ServerFrame.Failed(m.string(1, "code"), m.string(2, "message"), m.string(3, "field"), m.strings(4, "refused"))
    12 -> ServerFrame.InboxChanged(inbox(m))
    else -> ServerFrame.Unknown
}

private fun welcome(m: FrameReader) = Welcome(
    session = m.string(1, "session"),
    app = m.string(2, "app"),
    recipient = m.string(3, "recipient"),
    heartbeatMillis = m.millis(4, "heartbeat"),
    serverTime = m.time(7, "server_time"),
    digest = m.string(5, "digest"),
    registrations = m.int(6, "registrations"),
    inbox = m.message(8, "inbox")?.let(::inbox),
)

private fun inbox(m: FrameReader) = InboxNews(
    m.int(1, "unseen"),
    m.int(2, "unread"),
    m.strings(3, "changed"),
    m.boolean(4, "more"),
    m.messages(5, "marked").map(::mark),
)

private fun mark(m: FrameReader) = InboxMarked(
    m.string(1, "id"),
    m.boolean(2, "seen"),
    m.boolean(3, "read"),
    m.boolean(4, "archived"),
    m.boolean(5, "pinned"),
    m.string(6, "answered"),
)

internal fun notification(m: FrameReader): Notification {
    val content = m.content(7, "data", type = 8, checked = true)
    return Notification(
        id = m.string(3, "id"),
        seq = m.long(1, "seq"),
        title = m.string(4, "title"),
        body = m.string(5, "body"),
        category = m.string(6, "category"),
        data = content.data,
        contentType = content.type,
        priority = priority(m.choice(9, "priority", of = listOf("", "high", "normal", "low"))),
        createdAt = m.time(10, "created_at"),
        expiresAt = m.time(11, "expires_at"),
        replyBy = m.time(12, "reply_by"),
        attempt = m.int(2, "attempt"),
    ).also { if (!isName(it.id)) throw MemberException("id", "is not a name") }
}

/** A priority by its name; [Priority.NORMAL] also for those that only later servers know. */
private fun priority(name: String): Priority = when (name) {
    "high" -> Priority.HIGH
    "low" -> Priority.LOW
    else -> Priority.NORMAL
}

/** Refuses a signal whose names are none. */
private fun signal(m: FrameReader): Signal {
    val content = m.content(4, "payload", type = 6, checked = true)
    val s = Signal(m.string(1, "group"), m.string(2, "object"), m.version(3, "version"), m.boolean(5, "unknown"), content.data, content.type)
    if (!isName(s.name)) throw MemberException("object", "is not a name")
    if (s.group.isNotEmpty() && !isName(s.group)) throw MemberException("group", "is not a name")
    if (s.version < 0) throw MemberException("version", "is negative")
    return s
}

private fun message(m: FrameReader): Message {
    val content = m.content(3, "data", type = 2, checked = false)
    return Message(m.string(1, "topic"), content.data, content.type)
}

private fun request(m: FrameReader): Request {
    val content = m.content(8, "data", type = 7, checked = false)
    return Request(
        id = m.string(1, "request_id"),
        subject = m.string(2, "subject"),
        method = m.string(3, "method"),
        path = m.string(4, "path"),
        query = m.string(5, "query"),
        headers = m.headers("headers", 6, 10),
        data = content.data,
        contentType = content.type,
        deadline = m.time(9, "deadline"),
    )
}

/** A frame that says what is wrong with a notification or an object, as far as its name can be read. */
private fun undecodable(reason: String, number: Int, m: FrameReader): ServerFrame {
    fun <T> read(otherwise: T, read: () -> T): T = try {
        read()
    } catch (_: MemberException) {
        otherwise
    }
    return when (number) {
        NOTIFICATION -> undecodable(reason, id = read("") { m.string(3, "id") }, attempt = read(0) { m.int(2, "attempt") })
        OBJECT -> undecodable(reason, signalled = read("") { m.string(1, "group") } + "/" + read("") { m.string(2, "object") })
        else -> undecodable(reason)
    }
}

private fun undecodable(reason: String, id: String = "", signalled: String = "", attempt: Int = 0): ServerFrame = ServerFrame.Undecodable(
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
