package dev.godwit.push

import dev.godwit.ApiCall
import dev.godwit.Deduplicator
import dev.godwit.GodwitClient
import dev.godwit.GodwitException
import dev.godwit.ListenEvents
import dev.godwit.ListenOptions
import dev.godwit.Notification
import dev.godwit.ServerException
import dev.godwit.Storage
import dev.godwit.UnreachableException
import dev.godwit.http.read
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.MemberException
import dev.godwit.wire.utf8
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject
import java.io.IOException

/**
 * A device's part of push: shows each notification once although it may come live, by push or both; takes it away when it was acknowledged elsewhere
 * or recalled; acknowledges by the token that it brought, without a signed-in user. Reports are stored until [flush] has told the server. One object
 * serves the whole program; its methods may be called on any thread, and all but the suspending ones return quickly.
 *
 * @param client reports to the server; it needs neither token nor key, except to register endpoints
 * @param seen remembers what was shown; the live connection's part asks the same
 * @param storage keeps tokens and reports
 */
public class GodwitPush(private val client: GodwitClient, private val seen: Deduplicator, storage: Storage, private val display: PushDisplay) {
    private val state = PushState(storage) // with the lock held
    private val lock = Any()
    private val flushing = Mutex()

    /** Called when something could not be stored, as on a full disk. It is shown all the same, and may be shown twice. */
    @Volatile public var onError: ((IOException) -> Unit)? = null

    /** Whether something waits for [flush]. */
    public val pending: Boolean get() = synchronized(lock) { state.reports.isNotEmpty() }

    /** The notifications that are shown now, for [ListenOptions.held]. */
    public fun shown(): List<String> = seen.held()

    /** Takes FCM's data. False: the message is not one of Godwit's. */
    public fun handle(data: Map<String, String>): Boolean {
        val recalled = data["godwit_recall"]
        if (recalled != null) {
            recalled(listOf(recalled)) // maybe before it came: FCM keeps no order
            return true
        }
        return take(PushMessage.ofData(data) ?: return false)
    }

    /** Takes the decrypted payload of a Web Push message, as UnifiedPush's connector hands it out. False: it is not one of Godwit's. */
    public fun handleWebPush(payload: ByteArray): Boolean {
        val members = try {
            read(payload.utf8().orEmpty()) { it }
        } catch (_: GodwitException) {
            return false
        }
        val message = PushMessage.ofWebPush(members) ?: return false
        if (!isRecall(members)) return take(message)
        recalled(listOf(message.id))
        return true
    }

    private fun isRecall(m: JsonMembers) = try {
        m.boolean("recall")
    } catch (_: MemberException) {
        false
    }

    /** Shows a notification that came over the live connection. True: it was not shown before. */
    public fun live(notification: Notification): Boolean = synchronized(lock) { show(PushMessage.of(notification)) }

    private fun take(message: PushMessage): Boolean {
        synchronized(lock) {
            stored { state.keep(message) }
            if (show(message)) stored { state.report(message.id, PushEvent.SHOWN, settles = message.settle == "shown") }
        }
        return true
    }

    private fun show(message: PushMessage): Boolean {
        if (seen.seen(message.id)) return false
        display.show(message)
        stored { seen.shown(message.id) } // afterwards: a process that is killed in between shows it after all
        return true
    }

    /** These were acknowledged elsewhere, expired or taken back: so says a message, or [ListenEvents.recalled]. */
    public fun recalled(ids: List<String>): Unit = synchronized(lock) { for (id in ids) settle(id) }

    /** The person opened the notification, or chose something. False: it was settled before. */
    public fun clicked(id: String): Boolean = settled(id, PushEvent.CLICKED)

    /** The person took the notification away. False: it was settled before. */
    public fun dismissed(id: String): Boolean = settled(id, PushEvent.DISMISSED)

    private fun settled(id: String, event: PushEvent): Boolean = synchronized(lock) {
        settle(id).also { if (it) stored { state.report(id, event, settles = true) } }
    }

    private fun settle(id: String): Boolean {
        var shown = false
        stored { shown = seen.settled(id) }
        if (shown) display.close(id)
        return shown
    }

    private inline fun stored(write: () -> Unit) {
        try {
            write()
        } catch (e: IOException) {
            onError?.invoke(e)
        }
    }

    /**
     * Tells the server all that waits, in the order in which it happened. Call it when there is a network, as from WorkManager; a failure keeps the rest for the
     * next time. Reports that the server refuses, as of an expired notification, are forgotten.
     *
     * @throws UnreachableException if there is no network
     */
    public suspend fun flush(): Unit = flushing.withLock {
        while (true) {
            val first = synchronized(lock) { state.reports.firstOrNull() } ?: return@withLock
            val some = synchronized(lock) { state.reports.filter { it.event == first.event }.take(MOST_AT_ONCE) }
            val acks = some.map { it.ack }.filter { it.isNotEmpty() }
            if (acks.isNotEmpty()) tell { client.ackTokens(first.event, acks) }
            for (report in some) if (report.track.isNotEmpty()) tell { track(report) }
            synchronized(lock) { stored { state.told(some) } }
        }
    }

    private suspend fun track(report: PushState.Report) {
        val body = buildJsonObject {
            put("token", report.track)
            put("event", report.event.name.lowercase())
        }
        client.api.call(ApiCall("POST", "track", body = body.toString()), bearer = "")
    }

    private inline fun tell(call: () -> Unit) {
        try {
            call()
        } catch (e: ServerException) {
            if (e.temporary || e.type.isEmpty()) throw e // the network's sign-in page is no answer of the server
        }
    }

    /**
     * Registers this device's token at FCM for a recipient. Call it at each start and when FCM has a new token, whose predecessor is then removed. The
     * client needs the recipient's token.
     */
    public suspend fun registerFcm(recipient: String, token: String) {
        register(recipient, "fcm", buildJsonObject { put("token", token) }.toString())
    }

    /** [registerFcm] for UnifiedPush: the endpoint and the keys of the Web Push subscription, in base64url. */
    public suspend fun registerWebPush(recipient: String, endpoint: String, p256dh: String, auth: String) {
        val address = buildJsonObject {
            put("endpoint", endpoint)
            putJsonObject("keys") {
                put("p256dh", p256dh)
                put("auth", auth)
            }
        }
        register(recipient, "webpush", address.toString())
    }

    private suspend fun register(recipient: String, channel: String, address: String) {
        val next = client.registerEndpoint(Endpoint(channel, address, recipient))
        val before = synchronized(lock) {
            state.endpoint.also { stored { state.registered(PushState.Endpoint(next.id, next.manageToken, address)) } }
        }
        if (before == null || before.id == next.id || before.manageToken.isEmpty()) return
        tell { client.removeEndpoint(before.id, before.manageToken) }
    }
}

private const val MOST_AT_ONCE = 100
