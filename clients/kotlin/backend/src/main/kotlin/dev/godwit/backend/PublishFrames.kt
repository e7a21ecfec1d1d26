package dev.godwit.backend

import dev.godwit.Priority
import dev.godwit.ServerException
import dev.godwit.wire.ProtoFields
import dev.godwit.wire.ProtoWriter

/** The messages of godwit.v1.Publisher, whose numbers are those of publisher.proto. */
internal object PublishFrames {
    fun encode(p: Publication, recipients: List<String>): ByteArray = ProtoWriter().apply {
        val content = contentOf("data", p.data, p.contentType)
        texts(1, recipients)
        text(2, p.id)
        text(3, p.title)
        text(4, p.body)
        text(5, p.category)
        if (content.data.isNotEmpty()) bytes(6, content.data)
        text(7, content.type)
        number(8, p.ttlMillis)
        number(9, p.expiresAt?.toEpochMilliseconds() ?: 0)
        number(10, p.sendAt?.toEpochMilliseconds() ?: 0)
        text(11, p.collapseKey)
        number(12, priority(p.priority))
        number(13, if (p.ack == Ack.ANY) 0 else p.ack.ordinal + 1L)
        for (step in p.escalate) message(14) { step(step) }
        number(15, p.replyByMillis)
        text(16, p.template)
        for ((name, value) in p.variables) {
            message(17) {
                text(1, name)
                text(2, value)
            }
        }
        text(18, p.locale)
        p.inbox?.let { choice(19, it) }
        number(20, p.keepMillis)
        for (action in p.actions) {
            message(21) {
                text(1, action.id)
                text(2, action.title)
                text(3, action.url)
            }
        }
        text(25, p.digestKey)
        text(26, p.phones())
    }.toByteArray()

    private fun priority(p: Priority): Long = when (p) {
        Priority.HIGH -> 1
        Priority.NORMAL -> 0 // the usual one is omitted
        Priority.LOW -> 3
    }

    private fun ProtoWriter.step(s: Step) {
        text(1, s.channel)
        number(2, s.afterMillis)
        if (s.settleWhenShown) text(3, "shown")
        if (s.keep) choice(4, false)
        text(5, s.to)
    }

    fun decode(answer: ByteArray): List<Receipt> = ProtoFields(answer).messages(1).map { m ->
        Receipt(
            id = m.string(1, "id"),
            to = m.string(2, "to"),
            status = m.string(3, "status"),
            duplicate = m.boolean(4, "duplicate"),
            expiresAt = m.time(5, "expires_at"),
            error = m.message(6)?.let(::problem),
        )
    }

    fun recall(id: String, to: String): ByteArray = ProtoWriter().apply {
        text(1, id)
        text(2, to)
    }.toByteArray()

    fun recalled(answer: ByteArray): Long = ProtoFields(answer).long(1)

    fun problem(m: ProtoFields) = ServerException(m.int(3), m.string(1, "type"), m.string(2, "title"), m.string(4, "detail"), m.string(5, "field"), m.long(6))
}
