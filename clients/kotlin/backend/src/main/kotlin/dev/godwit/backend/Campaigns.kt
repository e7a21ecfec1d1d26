@file:JvmName("Campaigns")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.http.fetch
import dev.godwit.http.order
import dev.godwit.http.read
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.requireName
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.serialization.json.add
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import java.util.UUID
import kotlin.time.Instant

/** The state of a campaign. */
public class CampaignStatus internal constructor(m: JsonMembers) {
    /** The campaign's id. */
    public val id: String = m.string("id")

    /** Its name. */
    public val name: String = m.string("name")

    /** The revision of its definition and start time, for [Campaign.revise]. */
    public val revision: String = m.string("revision")

    /** `draft scheduled running paused completed cancelled failed correcting recalling recalled`. */
    public val state: String = m.string("state")

    /** Why it is paused or failed. */
    public val detail: String = m.string("detail")

    /** The channels that it is sent over. */
    public val channels: List<String> = m.strings("channels")

    /** When it begins; null: when it is started. */
    public val sendAt: Instant? = m.time("send_at")

    /** When it began. */
    public val startedAt: Instant? = m.time("started_at")

    /** When it ended. */
    public val finishedAt: Instant? = m.time("finished_at")

    /** The number of its messages, final if [enumerated]. */
    public val total: Long = m.long("total")

    /** Whether the whole audience is counted. */
    public val enumerated: Boolean = m.boolean("enumerated")

    /** The messages by outcome: `pending accepted failed expired suppressed unknown recalled`. */
    public val counts: Map<String, Long> = m.members("counts")?.let { c -> c.names.associateWith { c.long(it) } }.orEmpty()

    /** How many were shown. */
    public val shown: Long = m.long("shown")

    /** How many were clicked. */
    public val clicked: Long = m.long("clicked")

    /** How many were dismissed. */
    public val dismissed: Long = m.long("dismissed")

    /** How many a recall could not withdraw. */
    public val notRecalled: Long = m.long("not_recalled")

    /** When it probably ends; null: unknown. */
    public val eta: Instant? = m.time("eta")

    /** The whole answer, in JSON: with the figures of variants, of a correction and of each channel. */
    public val json: String = m.json

    /** Whether it no longer changes by itself. */
    public val ended: Boolean get() = state in ENDED && (counts["pending"] ?: 0) == 0L

    /** Names the campaign and its state. */
    override fun toString(): String = "CampaignStatus($id $state, $total messages)"

    private companion object {
        val ENDED = setOf("completed", "cancelled", "failed", "recalled")
    }
}

/** The result of one message of a campaign. */
public class CampaignDelivery internal constructor(m: JsonMembers) {
    /** The message's id. */
    public val id: String = m.string("id")

    /** The endpoint. */
    public val endpoint: String = m.string("endpoint")

    /** The endpoint's recipient; empty: an anonymous subscriber. */
    public val recipient: String = m.string("recipient")

    /** The channel. */
    public val channel: String = m.string("channel")

    /** `pending accepted failed expired suppressed unknown recalled`. */
    public val outcome: String = m.string("outcome")

    /** The provider's words. */
    public val detail: String = m.string("detail")

    /** How often it was tried. */
    public val attempts: Int = m.int("attempts")

    /** When. */
    public val at: Instant? = m.time("at")

    /** It was shown. */
    public val shown: Boolean = m.boolean("shown")

    /** It was clicked. */
    public val clicked: Boolean = m.boolean("clicked")

    /** Why it could not be recalled; empty: it was not tried, or could. */
    public val recall: String = m.string("recall")
}

/**
 * Creates a campaign: one message to an audience. With a start time it is scheduled, otherwise it is a draft for [Campaign.start]. It is created once,
 * however often a failure has it tried.
 *
 * @param spec its definition as the API has it, in JSON: `{"content":{"title":"…"},"audience":{"tags_any":["news"]},"rate":"25/s"}`
 */
public suspend fun GodwitClient.createCampaign(spec: String): Campaign =
    fetch(ApiCall("POST", "campaigns", body = spec, headers = once())) { campaign(it.string("id")) }

/** Names a campaign by its id. It makes no request. */
public fun GodwitClient.campaign(id: String): Campaign {
    requireName("campaign: id", id)
    return Campaign(this, id)
}

/** The app's campaigns, newest first. */
public fun GodwitClient.campaigns(): Flow<CampaignStatus> = pages(mapOf("limit" to "100"), "campaigns") { CampaignStatus(it) }

/** A campaign. Each change returns the state after it. */
public class Campaign internal constructor(
    private val client: GodwitClient,
    /** The campaign's id. */
    public val id: String,
) {
    /** Reads the state. */
    public suspend fun status(): CampaignStatus = client.fetch(ApiCall("GET", "campaigns", id)) { CampaignStatus(it) }

    /** Starts it, at once or at its start time. */
    public suspend fun start(): CampaignStatus = move("start")

    /** Stops sending; what was sent stays. */
    public suspend fun pause(): CampaignStatus = move("pause")

    /** Lets it go on. */
    public suspend fun resume(): CampaignStatus = move("resume")

    /** Ends it: what is pending is not sent. */
    public suspend fun cancel(): CampaignStatus = move("cancel")

    /** Withdraws what was sent, on channels that can. [progress] shows when it is done. */
    public suspend fun recall(): CampaignStatus = move("recall")

    /** Changes what messages that were sent over Telegram say, to a `content` or a `template` in JSON. [progress] shows when it is done. */
    public suspend fun correct(says: String): CampaignStatus = move("correct", says)

    /** Ends the comparison of two variants: the rest of the audience gets this one, `A` or `B`. */
    public suspend fun decide(variant: String): CampaignStatus = move("decide", buildJsonObject { put("variant", variant) }.toString())

    /** Creates a draft of the same message, audience and pace. An empty name becomes "Copy of" and this one's. */
    public suspend fun clone(name: String = ""): Campaign {
        val body = buildJsonObject { if (name.isNotEmpty()) put("name", name) }.toString()
        return client.fetch(ApiCall("POST", "campaigns", id, "clone", body = body, headers = once())) { client.campaign(it.string("id")) }
    }

    /** Sends the messages whose outcome is unknown again, some of them a second time, and returns their number. */
    public suspend fun retryUnknown(): Long = client.fetch(act("retry-unknown")) { it.long("retried") }

    /** Sends the message to up to 20 endpoints at once, which does not count, and returns an outcome for each. */
    public suspend fun test(vararg endpoints: String): Map<String, String> {
        val body = buildJsonObject { putJsonArray("endpoints") { endpoints.forEach(::add) } }.toString()
        return client.fetch(act("test", body)) { m -> m.objects("results").associate { it.string("endpoint") to it.string("outcome") } }
    }

    /**
     * Replaces the definition, before the campaign has started.
     *
     * @param revision of a status: where somebody has changed it since, it fails with status 412; empty: whatever it is
     */
    public suspend fun revise(spec: String, revision: String = ""): CampaignStatus =
        client.fetch(ApiCall("PUT", "campaigns", id, body = spec, headers = still(revision))) { CampaignStatus(it) }

    /** Removes it with its report. One that may still send has to be cancelled before. For [revision] see [revise]. */
    public suspend fun delete(revision: String = "") {
        client.order(ApiCall("DELETE", "campaigns", id, headers = still(revision)))
    }

    /** The messages with an outcome; empty: all. */
    public fun deliveries(outcome: String = ""): Flow<CampaignDelivery> {
        val call = ApiCall("GET", "campaigns", id, "deliveries", query = mapOf("outcome" to outcome.ifEmpty { null }), headers = NDJSON)
        return client.api.lines(call) { line -> read(line) { CampaignDelivery(it) } }
    }

    /** The state, now and at each change until it has ended. It is read every second. A draft and a paused campaign have not ended. */
    public fun progress(): Flow<CampaignStatus> = flow {
        var last = ""
        while (true) {
            val now = status()
            val seen = "${now.state} ${now.detail} ${now.total} ${now.counts} ${now.shown} ${now.clicked} ${now.dismissed}"
            if (seen != last) emit(now)
            last = seen
            if (now.ended) break
            delay(PROGRESS_MILLIS)
        }
    }

    private suspend fun move(verb: String, body: String? = null) = client.fetch(act(verb, body)) { CampaignStatus(it) }

    private fun act(verb: String, body: String? = null) = ApiCall("POST", "campaigns", id, verb, body = body)

    private fun still(revision: String) = if (revision.isEmpty()) emptyMap() else mapOf("If-Match" to "\"$revision\"")

    private companion object {
        const val PROGRESS_MILLIS = 1_000L
        val NDJSON = mapOf("Accept" to "application/x-ndjson")
    }
}

/** Has the server carry out a POST once, however often it comes. */
private fun once() = mapOf("Idempotency-Key" to UUID.randomUUID().toString())
