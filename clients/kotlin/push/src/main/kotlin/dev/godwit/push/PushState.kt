package dev.godwit.push

import dev.godwit.Deduplicator
import dev.godwit.Storage
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.MemberException
import dev.godwit.wire.needed
import dev.godwit.wire.objects
import dev.godwit.wire.readStored
import dev.godwit.wire.stored
import dev.godwit.wire.text
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject

/** What a device has to tell the server, through restarts: the tokens of messages, and the reports that wait for a network. */
internal class PushState(private val storage: Storage) {
    /** What to tell of one message: by [ack], which settles it, and by [track], which counts. */
    data class Tokens(val id: String, val ack: String = "", val track: String = "")

    data class Report(val event: PushEvent, val ack: String = "", val track: String = "")

    /** The device's address at a push provider, as the server knows it. */
    data class Endpoint(val id: String, val manageToken: String = "", val address: String = "")

    private data class Document(val tokens: List<Tokens> = emptyList(), val reports: List<Report> = emptyList(), val endpoint: Endpoint? = null)

    private var document = read()

    val reports: List<Report> get() = document.reports
    val endpoint: Endpoint? get() = document.endpoint

    /** Keeps the tokens of a message. */
    fun keep(m: PushMessage) {
        if (m.ackToken.isEmpty() && m.trackToken.isEmpty()) return
        val tokens = Tokens(m.id, m.ackToken, m.trackToken)
        if (tokens !in document.tokens) write(document.copy(tokens = (document.tokens.filter { it.id != m.id } + tokens).takeLast(MOST)))
    }

    /** Queues a report of a message, if it has tokens. Only some settle: those whose publisher said that showing is enough, and all others by a person. */
    fun report(id: String, event: PushEvent, settles: Boolean) {
        val tokens = document.tokens.find { it.id == id } ?: return
        val report = Report(event, if (settles) tokens.ack else "", tokens.track)
        if (report.ack.isNotEmpty() || report.track.isNotEmpty()) write(document.copy(reports = (document.reports + report).takeLast(MOST)))
    }

    /** Forgets reports that the server has. */
    fun told(reports: List<Report>) = write(document.copy(reports = document.reports - reports.toSet()))

    fun registered(endpoint: Endpoint) = write(document.copy(endpoint = endpoint))

    /** Keeps what is to be stored also where storing it fails, so that it is lost only with the process. */
    private fun write(next: Document) {
        document = next
        storage.write(encode(next))
    }

    private fun encode(next: Document) = stored {
        put("format", FORMAT)
        objects("tokens", next.tokens) {
            text("id", it.id)
            text("ack", it.ack)
            text("track", it.track)
        }
        objects("reports", next.reports) {
            put("event", it.event.name)
            text("ack", it.ack)
            text("track", it.track)
        }
        next.endpoint?.let {
            putJsonObject("endpoint") {
                text("id", it.id)
                text("manageToken", it.manageToken)
                text("address", it.address)
            }
        }
    }

    private fun read(): Document {
        val content = storage.read() ?: return Document()
        return readStored(content, FORMAT, { "the state of push, in $storage" }) { decode(it) } ?: Document()
    }

    private fun decode(m: JsonMembers) = Document(
        m.objects("tokens").map { Tokens(it.needed("id"), it.string("ack"), it.string("track")) },
        m.objects("reports").map { Report(event(it.string("event")), it.string("ack"), it.string("track")) },
        m.members("endpoint")?.let { Endpoint(it.needed("id"), it.string("manageToken"), it.string("address")) },
    )

    private fun event(name: String) = PushEvent.values().find { it.name == name } ?: throw MemberException("event", "is unknown")
}

/** Grows with changes that older programs cannot read. */
private const val FORMAT = 1

/** As many as a [dev.godwit.Deduplicator] remembers. */
private const val MOST = 500
