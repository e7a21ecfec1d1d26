package dev.godwit

import dev.godwit.live.Clock
import dev.godwit.wire.needed
import dev.godwit.wire.objects
import dev.godwit.wire.readStored
import dev.godwit.wire.stored
import kotlinx.serialization.json.put
import java.io.IOException
import kotlin.time.Instant

/**
 * Remembers the last 500 notifications on this device, so that one which comes both over the live connection and by push is shown once. Ask [seen]
 * before showing, and call [shown] afterwards: if the program is killed in between, the notification is shown again rather than lost. Its storage
 * belongs to one recipient and one program at a time. All methods may be called on any thread.
 */
public class Deduplicator internal constructor(private val storage: Storage, private val clock: Clock) {
    /**
     * Reads what was remembered. A document that cannot be understood is as good as none: at worst, a notification is shown twice.
     *
     * @throws IOException if the storage cannot be read, or was written by a later version
     */
    @Throws(IOException::class)
    public constructor(storage: Storage) : this(storage, Clock())

    private var entries: List<Entry> = read() // the newest last

    /** Whether a notification must not be shown, because it is shown already, was acknowledged or was recalled. */
    @Synchronized
    public fun seen(id: String): Boolean = find(id) != null

    /** Remembers that a notification is shown. It is stored when this returns. */
    @Synchronized
    @Throws(IOException::class)
    public fun shown(id: String) {
        if (find(id) == null) keep(Entry(id))
    }

    /**
     * Remembers that a notification was acknowledged or recalled, even if it has not come yet. True: it was on the screen until now, so remove it, and
     * acknowledge it unless it was recalled. It is stored when this returns.
     */
    @Synchronized
    @Throws(IOException::class)
    public fun settled(id: String): Boolean {
        val before = find(id)
        if (before?.settled != null) return false
        keep(Entry(id, Instant.fromEpochMilliseconds(clock.wall())))
        return before != null
    }

    /** The notifications that are shown now, for [ListenOptions.held]. */
    @Synchronized
    public fun held(): List<String> = entries.filter { it.settled == null }.map { it.id }

    // After a day an id may be published anew.
    private fun find(id: String): Entry? = entries.find { it.id == id && (it.settled == null || clock.wall() < it.settled.toEpochMilliseconds() + REUSE) }

    private fun keep(entry: Entry) {
        val next = (entries.filter { it.id != entry.id } + entry).takeLast(REMEMBERED)
        // The document is the same in every language.
        val document = stored {
            put("format", FORMAT)
            objects("ids", next) {
                put("id", it.id)
                if (it.settled != null) put("settled", it.settled.toString())
            }
        }
        storage.write(document)
        entries = next
    }

    private fun read(): List<Entry> {
        val content = storage.read() ?: return emptyList()
        val ids =
            readStored(content, FORMAT, { "the ids that were seen, in $storage" }) { m -> m.objects("ids").map { Entry(it.needed("id"), it.time("settled")) } }
        return ids.orEmpty().takeLast(REMEMBERED)
    }

    /** One notification; no time: it is shown. */
    private class Entry(val id: String, val settled: Instant? = null)
}

/** Grows with changes that older programs cannot read. */
private const val FORMAT = 1

/** api/vectors/push.json sets it for all languages. */
private const val REMEMBERED = 500

/** How long the server refuses the id of a settled notification, in milliseconds. */
private const val REUSE = 24 * 3600 * 1000L
