@file:JvmName("Publishing")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.GodwitException
import dev.godwit.ServerException
import dev.godwit.http.fetch
import dev.godwit.http.read
import dev.godwit.http.requestBackoff
import dev.godwit.wire.requireName
import kotlinx.coroutines.delay

/** How many recipients one publish may have. */
public const val MAX_RECIPIENTS: Int = 1000

private const val BATCH_LINES = 10_000
private const val BATCH_BYTES = 31 shl 20 // the server takes 32 MB
private const val POLL_MILLIS = 200L

/**
 * Stores one notification and returns once it is on the server's disk. After an exception it may have been stored all the same: publish again with
 * the same id.
 */
public suspend fun GodwitClient.publish(publication: Publication): Receipt =
    fetch(ApiCall("POST", "notifications", body = publication.json().toString())) { receiptOf(it) }

/** [publish] with a publication that is set in place. */
public suspend fun GodwitClient.publish(to: String, publication: Publication.() -> Unit): Receipt = publish(Publication(to).apply(publication))

/** Stores one notification for up to [MAX_RECIPIENTS] recipients. It returns one receipt for each, in order; some may hold an error. */
public suspend fun GodwitClient.publishTo(recipients: List<String>, publication: Publication): List<Receipt> =
    fetch(ApiCall("POST", "notifications", body = publication.json(recipients).toString())) { m -> m.objects("results").map { receiptOf(it) } }

/**
 * Stores any number of notifications in as few requests as possible. It returns one receipt for each, in order; an invalid one does not affect the
 * others. Publications that failed for a temporary reason are tried again. An exception is that of a whole request.
 */
public suspend fun GodwitClient.publishBatch(publications: List<Publication>): List<Receipt> {
    val receipts = arrayOfNulls<Receipt>(publications.size)
    val lines = publications.mapIndexed { i, p ->
        try {
            p.json().toString()
        } catch (e: IllegalArgumentException) {
            receipts[i] = Receipt(p.id, p.to, "", false, null, e)
            null
        }
    }
    var todo = lines.indices.filter { lines[it] != null }
    val wait = requestBackoff()
    for (left in api.attempts downTo 1) {
        for (some in slices(todo, lines)) publishLines(some, lines, receipts)
        todo = todo.filter { (receipts[it]?.error as? ServerException)?.temporary == true }
        if (todo.isEmpty()) break
        if (left > 1) delay(maxOf(wait.next(), todo.maxOf { (receipts[it]?.error as ServerException).retryAfterMillis }))
    }
    return receipts.map { checkNotNull(it) }
}

/** Distributes lines over requests. */
private fun slices(todo: List<Int>, lines: List<String?>): List<List<Int>> {
    val slices = ArrayList<ArrayList<Int>>()
    var bytes = 0
    for (i in todo) {
        val size = lines[i].orEmpty().encodeToByteArray().size + 1
        if (slices.isEmpty() || slices.last().size == BATCH_LINES || bytes + size > BATCH_BYTES) {
            slices += ArrayList<Int>()
            bytes = 0
        }
        slices.last() += i
        bytes += size
    }
    return slices
}

private suspend fun GodwitClient.publishLines(todo: List<Int>, lines: List<String?>, receipts: Array<Receipt?>) {
    val body = todo.joinToString("") { lines[it] + "\n" }
    val answer = api.call(ApiCall("POST", "notifications", "batch", body = body, contentType = "application/x-ndjson"))
    val results = answer.lineSequence().filter { it.isNotBlank() }.toList()
    if (results.size != todo.size) throw GodwitException("read answer: has ${results.size} lines for ${todo.size} publications")
    for ((i, line) in todo.zip(results)) receipts[i] = read(line) { receiptOf(it) }
}

/** The status of one recipient's copy. It takes role read, which publish implies. */
public suspend fun GodwitClient.status(id: String, to: String): Status {
    requireName("status: id", id)
    return fetch(ApiCall("GET", "notifications", id, query = mapOf("to" to to))) { Status(it) }
}

/** Waits until one recipient's copy has settled, and returns its status. Limit it by `withTimeout`. */
public suspend fun GodwitClient.awaitSettled(id: String, to: String): Status {
    while (true) {
        val status = status(id, to)
        if (status.settled) return status
        delay(POLL_MILLIS)
    }
}

/** Withdraws a notification from the named recipients, or from all. Settled copies stay as they are. */
public suspend fun GodwitClient.recall(id: String, vararg to: String) {
    requireName("recall: id", id)
    val recipients: List<String?> = if (to.isEmpty()) listOf(null) else to.toList()
    for (recipient in recipients) api.call(ApiCall("DELETE", "notifications", id, query = mapOf("to" to recipient)))
}
