@file:JvmName("Events")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.ServerException
import dev.godwit.UnreachableException
import dev.godwit.http.read
import dev.godwit.live.Backoff
import dev.godwit.wire.JsonMembers
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.flow
import kotlin.time.Instant

/** What happened to a notification or a recipient of the app. */
public class Event internal constructor(m: JsonMembers) {
    /** For [events], which goes on behind it. */
    public val eventId: String = m.raw("event_id").orEmpty().removeSurrounding("\"")

    /** `stored delivered acked replied expired replaced recalled failed online offline` and others. */
    public val type: String = m.string("type")

    /** When. */
    public val at: Instant? = m.time("at")

    /** The notification; empty for `online` and `offline`. */
    public val id: String = m.string("id")

    /** The recipient. */
    public val to: String = m.string("to")

    /** The channel of an escalation's step; else empty. */
    public val channel: String = m.string("channel")

    /** The number of an escalation's step, from 1; 0: no step, or unknown. */
    public val step: Int = m.int("step")

    /** The reason, in the provider's or receiver's words. */
    public val detail: String = m.string("detail")

    /** Names the event and what it is about. */
    override fun toString(): String = "Event($type $id $to)"
}

/**
 * The app's events of some types (none: all), behind the event [since] (empty: from now on). When the connection is lost, it goes on behind the last
 * event. It takes role read.
 *
 * @throws ServerException if the server refuses it
 */
public fun GodwitClient.events(since: String = "", vararg types: String): Flow<Event> = flow {
    var last = since
    val wait = Backoff()
    while (true) {
        val call = ApiCall("GET", "events", query = mapOf("since" to last.ifEmpty { null }, "types" to types.joinToString(",").ifEmpty { null }))
        var asked = 0L
        api.lines(call) { line -> read(line) { Event(it) } }.catch { asked = pauseAfter(it) }.collect { event ->
            last = event.eventId
            wait.reset()
            emit(event)
        }
        delay(maxOf(wait.next(), asked))
    }
}

/** How long the server asks to wait after a failure that passes. */
private fun pauseAfter(failure: Throwable): Long = when (failure) {
    is UnreachableException -> 0
    is ServerException if failure.temporary -> failure.retryAfterMillis
    else -> throw failure
}
