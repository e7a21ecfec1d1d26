package dev.godwit.messaging.objects

import dev.godwit.live.Backoff
import dev.godwit.live.Due
import dev.godwit.messaging.ObjectStatus
import dev.godwit.messaging.RegistrationException
import dev.godwit.messaging.RegistrationStatus
import dev.godwit.messaging.SignalHandler
import dev.godwit.messaging.wire.Register
import dev.godwit.messaging.wire.Unregister
import dev.godwit.wire.ClientFrame
import dev.godwit.wire.ServerFrame

/**
 * Keeps a client's registrations in agreement with the server's. It has no connections or coroutines: frames of the server go in, frames to
 * send come out. The desired set has the objects that the program wants; its digest is compared with that of the server's set at every
 * welcome, confirmation and heartbeat. Equal digests settle all pending changes without a further frame. If they differ for longer than an
 * answer takes, the whole set is sent with reset, which the server swaps in at once, so that no wanted object is unregistered for a moment.
 */
internal class Registrations(val group: String) {
    val entries = HashMap<ObjectKey, Registration>()
    var digest = 0L // of the wanted entries
    var fresh = true // there is no state of an earlier run: the program may not yet have registered objects that the server has

    var summarised = false // the server has sent its digest on this connection
        private set
    var reset = false // the whole set must be sent
        private set
    private var live = false // welcomed
    private var stale = false // some changes may not have been sent: otherwise the entries need not be searched
    private val resets = Backoff()
    private var noResetBefore = 0L
    private var sentAt = NEVER // when registrations were last sent on this connection
    private var checkAt = NEVER // when to request the server's digest

    val signals = Signals(this)

    /** What the program has not been told. */
    val changes = ArrayList<ObjectStatus>()

    /** Grows with each change of what is kept. */
    var revision = 0L

    /** Registers an object. If it is registered already, the new handler replaces the old one. */
    fun want(key: ObjectKey, handler: SignalHandler?) {
        val e = entries.getOrPut(key) { Registration(key) }
        e.handler = handler
        if (!e.wanted) {
            digest += key.hash
            e.sent = false
            e.error = null
            e.againAt = 0
            e.wait.reset()
            e.anew = e.version > 0
            stale = true
            set(e, RegistrationStatus.PENDING_REGISTRATION)
        }
        signals.enqueue(e)
    }

    /** Unregisters an object. */
    fun drop(key: ObjectKey) {
        val e = entries[key] ?: return
        if (e.status == RegistrationStatus.REFUSED) return remove(e)
        if (!e.wanted) return
        digest -= key.hash
        e.sent = false
        e.againAt = 0
        e.wait.reset()
        e.waiting = null
        stale = true
        signals.forget(key)
        set(e, RegistrationStatus.PENDING_UNREGISTRATION)
    }

    private fun set(e: Registration, status: RegistrationStatus) {
        if (e.status == status) return
        e.status = status
        revision++
        changes += e.view()
    }

    private fun remove(e: Registration) {
        entries.remove(e.key)
        signals.forget(e.key)
        set(e, RegistrationStatus.UNREGISTERED)
    }

    /** Begins a connection. Frames of an earlier one get no answer any more. */
    fun welcomed(theirs: String, now: Long) {
        live = true
        summarised = false
        stale = true
        reset = false
        sentAt = NEVER
        checkAt = now + SETTLE_PATIENCE // asks for the digest if the welcome has none
        for (e in entries.values) {
            e.sent = false
            e.againAt = 0
        }
        compare(theirs, now)
    }

    fun lost() {
        live = false
        summarised = false
    }

    /** Compares the server's digest with the client's; a text that is none means that the server does not know it yet. */
    fun compare(digestText: String, now: Long) {
        val theirs = parseDigest(digestText)
        if (theirs == null || !live) return
        val first = !summarised
        summarised = true
        val settledAt = if (sentAt == NEVER) 0 else sentAt + SETTLE_PATIENCE
        when {
            theirs == digest -> agree(first)
            first && fresh -> checkAt = NEVER // only new registrations are sent; the next heartbeat shows whether something else differs
            reset || !first && outstanding() -> Unit
            now < settledAt -> checkAt = settledAt
            now < noResetBefore -> checkAt = noResetBefore
            else -> reset = true
        }
    }

    /** Whether changes must still be sent, so that the digests cannot be equal. */
    private fun outstanding() = stale && entries.values.any { it.unsent }

    /**
     * Settles what is pending because both sets are equal. Unless it is [all], changes that were not sent yet stay pending: the server may be
     * about to carry out an earlier change that contradicts them.
     */
    private fun agree(all: Boolean) {
        fresh = false
        reset = false
        checkAt = NEVER
        resets.reset()
        noResetBefore = 0
        for (e in entries.values.toList()) {
            if (!all && !e.sent) continue
            if (e.status == RegistrationStatus.PENDING_REGISTRATION) {
                e.error = null
                set(e, RegistrationStatus.REGISTERED)
            } else if (e.status == RegistrationStatus.PENDING_UNREGISTRATION) {
                remove(e)
            }
        }
    }

    fun key(ofGroup: String, name: String) = ObjectKey(ofGroup.ifEmpty { group }, name)

    /**
     * Takes a confirmation. If it contradicts the desired set, nothing changes: the digests then differ, and the frames sent because of that
     * correct the server's set.
     */
    fun registered(f: ServerFrame.Registered, now: Long) {
        for (name in f.objects) {
            val e = entries[key(f.group, name)] ?: continue
            if (e.status != RegistrationStatus.PENDING_REGISTRATION || !e.sent) continue
            e.error = null
            e.wait.reset()
            set(e, RegistrationStatus.REGISTERED)
        }
        compare(f.digest, now)
    }

    /** Takes a refusal. Refused for good, the object is in neither digest; refused for now, it is requested again later. */
    fun failed(f: ServerFrame.RegistrationFailed, now: Long) {
        for (name in f.objects) {
            val e = entries[key(f.group, name)]?.takeIf { it.status != RegistrationStatus.REFUSED } ?: continue
            val error = RegistrationException(e.key.group, e.key.name, f.code, f.transient)
            when {
                f.transient -> refusedForNow(e, error, now)
                e.status == RegistrationStatus.PENDING_UNREGISTRATION -> remove(e)
                else -> {
                    digest -= e.key.hash
                    e.error = error
                    e.waiting = null
                    signals.forget(e.key)
                    set(e, RegistrationStatus.REFUSED)
                }
            }
        }
    }

    private fun refusedForNow(e: Registration, error: RegistrationException, now: Long) {
        e.error = error
        e.sent = false
        e.againAt = now + e.wait.next()
        stale = true
        if (e.status == RegistrationStatus.REGISTERED) e.status = RegistrationStatus.PENDING_REGISTRATION
        changes += e.view()
    }

    /** Returns what to send now, nothing before the server has sent its digest. [last]: these are the last frames on this connection. */
    fun take(now: Long, last: Boolean): Due {
        if (!live) return Due(emptyList())
        val frames = ArrayList<ClientFrame>()
        if (summarised) {
            if (reset) {
                frames += whole()
                noResetBefore = now + resets.next()
            } else {
                frames += deltas(now)
            }
            if (frames.isNotEmpty()) {
                sentAt = now
                checkAt = now + SETTLE_PATIENCE
            }
        }
        if (now >= checkAt) frames += ping()
        frames += signals.acks(now, last || frames.isNotEmpty())
        return Due(frames, againAt())
    }

    /** A group's name for frames: empty if it is the session's group. */
    fun left(ofGroup: String) = if (ofGroup == group) "" else ofGroup

    private fun ping(): ClientFrame = ClientFrame.Ping(digestOfPing())

    /** The digest for a ping, whose pong says what the server's is. */
    fun digestOfPing(): String {
        checkAt = NEVER
        return formatDigest(digest)
    }

    /** The whole desired set, which the server swaps in after the last of these frames. */
    private fun whole(): List<ClientFrame> {
        reset = false
        fresh = false
        for (e in entries.values) {
            e.sent = true
            e.againAt = 0
            if (e.wanted) set(e, RegistrationStatus.PENDING_REGISTRATION)
        }
        val slices = slices(entries.values.filter { it.wanted })
        if (slices.isEmpty()) return listOf(Register(emptyList(), reset = true))
        return slices.mapIndexed { i, (group, names) -> Register(names, group, reset = true, more = i < slices.lastIndex) }
    }

    /** The changes that have not been sent. */
    private fun deltas(now: Long): List<ClientFrame> {
        if (!stale) return emptyList()
        stale = false
        val (due, later) = entries.values.filter { it.unsent }.partition { now >= it.againAt }
        if (later.isNotEmpty()) stale = true
        due.forEach { it.sent = true }
        val (wanted, unwanted) = due.partition { it.wanted }
        return slices(unwanted).map { (group, names) -> Unregister(names, group) } +
            slices(wanted).map { (group, names) -> Register(names, group) }
    }

    /** Distributes objects over frames, with one group in each. */
    private fun slices(list: List<Registration>): List<Pair<String, List<String>>> = list.map { it.key }.sorted()
        .groupBy { it.group }
        .flatMap { (group, keys) -> keys.map { it.name }.chunked(MOST_OBJECTS).map { left(group) to it } }

    /** When [take] has something to send without a further event. */
    private fun againAt(): Long {
        val refused = if (summarised && stale) entries.values.filter { it.unsent }.minOfOrNull { it.againAt } else null
        return minOf(checkAt, signals.acksAt, refused ?: NEVER)
    }
}

private const val NEVER = Long.MAX_VALUE

/** How long the answer to registrations may take, in milliseconds. If digests still differ then, something was lost. */
private const val SETTLE_PATIENCE = 2_000L

/** How many names one frame has at most: with names of 128 bytes it is below 64 KB. */
private const val MOST_OBJECTS = 256
