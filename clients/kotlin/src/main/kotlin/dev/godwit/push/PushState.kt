package dev.godwit.push

import dev.godwit.PushEvent
import dev.godwit.PushMessage
import dev.godwit.Storage
import dev.godwit.http.json
import dev.godwit.wire.utf8
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import java.io.IOException

/** What a device has to tell the server, through restarts: the tokens of messages, and the reports that wait for a network. */
internal class PushState(private val storage: Storage) {
    /** What to tell of one message: by [ack], which settles it, and by [track], which counts. */
    @Serializable
    data class Tokens(val id: String, val ack: String = "", val track: String = "")

    @Serializable
    data class Report(val event: PushEvent, val ack: String = "", val track: String = "")

    /** The device's address at a push provider, as the server knows it. */
    @Serializable
    data class Endpoint(val id: String, val manageToken: String = "", val address: String = "")

    @Serializable
    private data class Document(
        val format: Int = 0,
        val tokens: List<Tokens> = emptyList(),
        val reports: List<Report> = emptyList(),
        val endpoint: Endpoint? = null,
    )

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
        storage.write(json.encodeToString(Document.serializer(), next.copy(format = FORMAT)).encodeToByteArray())
    }

    private fun read(): Document {
        val text = storage.read()?.utf8() ?: return Document()
        val read = try {
            json.decodeFromString(Document.serializer(), text)
        } catch (_: SerializationException) {
            return Document()
        }
        if (read.format > FORMAT) throw IOException("read the state of push: $storage was written by a later version of this program")
        return read
    }

    private companion object {
        /** Grows with changes that older programs cannot read. */
        const val FORMAT = 1

        /** As many as a [dev.godwit.Deduplicator] remembers. */
        const val MOST = 500
    }
}
