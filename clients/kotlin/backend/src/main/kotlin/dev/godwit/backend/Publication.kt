package dev.godwit.backend

import dev.godwit.Action
import dev.godwit.Priority
import dev.godwit.wire.list
import dev.godwit.wire.millis
import dev.godwit.wire.text
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.addJsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject
import java.util.UUID
import kotlin.time.Instant

/** Whose acknowledgement settles a notification. */
public enum class Ack {
    /** The first device's. */
    ANY,

    /** Every device's that is connected or known. */
    ALL,

    /** Nobody's: the first write to a connection settles it. */
    NONE,
}

/** A notification to be published to [to], one recipient or, with [publishTo], up to 1,000. */
public class Publication @JvmOverloads constructor(
    /** The recipient. */
    public val to: String = "",
) {
    /**
     * Identifies the notification; publishing it again to the same recipient while it is pending, or within 24 h after it settled, changes nothing.
     * A retry after a failure needs the same id.
     */
    public var id: String = UUID.randomUUID().toString()

    /** The title. */
    public var title: String = ""

    /** The text. */
    public var body: String = ""

    /** For the program; its settings in the app say more. */
    public var category: String = ""

    /** JSON, text or bytes. */
    public var data: ByteArray = ByteArray(0)

    /** The type of [data]; empty: JSON if it is valid JSON, else text if it is UTF-8, else bytes. */
    public var contentType: String = ""

    /** How long it is delivered, in milliseconds from [sendAt] if that is set; 0: 24 h; at most 30 days. */
    public var ttlMillis: Long = 0

    /** Until when it is delivered, instead of [ttlMillis]. */
    public var expiresAt: Instant? = null

    /** When it is delivered, at most 30 days ahead. */
    public var sendAt: Instant? = null

    /** An unsettled notification of the same key and recipient is replaced. */
    public var collapseKey: String = ""

    /** With which others it gathers, if its category gathers. */
    public var digestKey: String = ""

    /** Its order in a backlog. */
    public var priority: Priority = Priority.NORMAL

    /** Whose acknowledgement settles it. */
    public var ack: Ack = Ack.ANY

    /** Asks for an answer within this time, in milliseconds, at most 30 days; see [Status.reply]. 0: none is asked for. */
    public var replyByMillis: Long = 0

    /** Names one of the app's templates, whose content replaces title, body and category. */
    public var template: String = ""

    /** The template's variables. */
    public var variables: Map<String, String> = emptyMap()

    /** BCP 47: the template's language for sessions, and for endpoints without a known language. */
    public var locale: String = ""

    /** Whether recipients' inboxes keep it after its delivery; null: its category decides. */
    public var inbox: Boolean? = null

    /** How long inboxes keep it, in milliseconds; 0: 30 days, at most 365. */
    public var keepMillis: Long = 0

    /** Choices that the kept notification offers, 5 at most. */
    public var actions: List<Action> = emptyList()

    /** The steps that follow one another until the notification is acknowledged; empty: the live connection alone. */
    public var escalate: List<Step> = emptyList()

    /** What Android devices alone get by these steps; null: nothing. */
    public var fcm: Fcm? = null

    /** What Apple's devices alone get by these steps; null: nothing. */
    public var apns: Apns? = null

    /** The Live Activity that these steps start; null: none. */
    public var liveActivity: LiveActivity? = null

    internal fun json(recipients: JsonObjectBuilder.() -> Unit): JsonObject = buildJsonObject {
        recipients()
        put("id", id)
        text("title", title)
        text("body", body)
        text("category", category)
        content("data", contentOf("data", data, contentType))
        millis("ttl", ttlMillis)
        expiresAt?.let { put("expires_at", it.toString()) }
        sendAt?.let { put("send_at", it.toString()) }
        text("collapse_key", collapseKey)
        text("digest_key", digestKey)
        if (priority != Priority.NORMAL) put("priority", priority.name.lowercase())
        if (ack != Ack.ANY) put("ack", ack.name.lowercase())
        millis("reply_by", replyByMillis)
        text("template", template)
        if (variables.isNotEmpty()) putJsonObject("variables") { for ((name, value) in variables) put(name, value) }
        text("locale", locale)
        inbox?.let { put("inbox", it) }
        millis("keep", keepMillis)
        if (actions.isNotEmpty()) putJsonArray("actions") { for (a in actions) addJsonObject { action(a) } }
        if (escalate.isNotEmpty()) putJsonArray("escalate") { for (s in escalate) addJsonObject { s.addTo(this) } }
        addPhones()
    }

    private fun JsonObjectBuilder.addPhones() {
        fcm?.let { put("fcm", it.json()) }
        apns?.let { put("apns", it.json()) }
        liveActivity?.let { put("live_activity", it.json()) }
    }

    /** What phones alone get, an object in JSON; empty: nothing. */
    internal fun phones(): String = buildJsonObject { addPhones() }.takeIf { it.isNotEmpty() }?.toString().orEmpty()

    internal fun json(): JsonObject = json { put("to", to) }

    internal fun json(recipients: List<String>): JsonObject = json { list("to", recipients) }
}

/** One step of an escalation. */
public class Step @JvmOverloads constructor(
    /** `live`, which must be the first step's, or a push channel. */
    public val channel: String,
    /** How long after the notification is due, in milliseconds; not less than that of the step before. */
    public val afterMillis: Long = 0,
) {
    /** Settled as soon as a device has shown it, and not by a click or an acknowledgement alone. */
    public var settleWhenShown: Boolean = false

    /** The step's message stays visible although the notification was settled elsewhere. */
    public var keep: Boolean = false

    /** For webhooks: the name of one of the app's targets, which replaces the recipient's endpoints. */
    public var to: String = ""

    internal fun addTo(json: JsonObjectBuilder) {
        json.put("channel", channel)
        json.millis("after", afterMillis)
        if (settleWhenShown) json.put("settle", "shown")
        if (keep) json.put("withdraw", false)
        json.text("to", to)
    }
}

private fun JsonObjectBuilder.action(a: Action) {
    put("id", a.id)
    put("title", a.title)
    text("url", a.url)
}
