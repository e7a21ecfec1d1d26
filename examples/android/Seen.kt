package org.example.rides

import android.content.Context
import java.io.File
import java.time.Duration
import java.time.Instant
import org.json.JSONArray
import org.json.JSONObject

/**
 * Remembers the last 500 notifications that something happened to, so that one which comes over the live connection and by
 * push is shown once. Its rules are those of api/vectors/push.json, its file is that of Godwit's Deduplicator.
 */
class Seen private constructor(private val file: File) {
    private class Entry(val id: String, val settled: Instant?) // no time: it is shown

    private val entries = ArrayDeque<Entry>() // the newest is last

    init {
        // A file that cannot be read is as good as none: at worst something is shown twice.
        runCatching {
            val ids = JSONObject(file.readText()).getJSONArray("ids")
            for (i in 0 until ids.length()) {
                val e = ids.getJSONObject(i)
                entries += Entry(e.getString("id"), if (e.has("settled")) Instant.parse(e.getString("settled")) else null)
            }
        }
    }

    /** Whether it is shown, or was acknowledged or recalled, and so is not to be shown. */
    @Synchronized
    fun seen(id: String) = find(id) != null

    /** Keeps that it is shown. Call it when it is: a process that is killed in between shows it after all. */
    @Synchronized
    fun shown(id: String) {
        if (find(id) == null) keep(Entry(id, null))
    }

    /** Keeps that it was acknowledged or recalled, even before it came. True: it was shown until now. */
    @Synchronized
    fun settled(id: String): Boolean {
        val before = find(id)
        if (before?.settled != null) return false
        keep(Entry(id, Instant.now()))
        return before != null
    }

    // After a day an id may be published anew.
    private fun find(id: String) = entries.find { it.id == id && (it.settled == null || Instant.now() < it.settled + Duration.ofDays(1)) }

    private fun keep(e: Entry) {
        entries.removeAll { it.id == e.id }
        entries += e
        while (entries.size > 500) entries.removeFirst()
        val ids = JSONArray(entries.map { JSONObject().put("id", it.id).apply { if (it.settled != null) put("settled", it.settled.toString()) } })
        val beside = File(file.path + ".new") // a kill leaves the old file or the new one
        beside.outputStream().use {
            it.write(JSONObject().put("format", 1).put("ids", ids).toString().toByteArray())
            it.fd.sync()
        }
        beside.renameTo(file)
    }

    companion object {
        @Volatile private var only: Seen? = null

        fun of(context: Context): Seen = only ?: synchronized(this) {
            only ?: Seen(File(context.filesDir, "godwit-seen.json")).also { only = it }
        }
    }
}
