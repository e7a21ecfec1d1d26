package dev.godwit.messaging.objects

import dev.godwit.Signal
import dev.godwit.live.Backoff
import dev.godwit.messaging.ObjectStatus
import dev.godwit.messaging.RegistrationException
import dev.godwit.messaging.RegistrationStatus
import dev.godwit.messaging.SignalHandler

/** One registration, and the versions of its object. */
internal class Registration(val key: ObjectKey) {
    var status = RegistrationStatus.UNREGISTERED
    var sent = false // the change was sent on this connection
    var againAt = 0L // refused for now: not sent again before this time
    val wait = Backoff()
    var error: RegistrationException? = null

    var handler: SignalHandler? = null
    var version = 0L // the newest known one that was handled
    var unknown = false // the last handled signal reported an unknown version
    var floor = 0L // of that
    var anew = false // registered again: the current version is wanted even if it was handled before
    var waiting: Signal? = null // the newest that is not handled
    var running: Signal? = null // being handled
    var queued = false
    var retryAt = 0L // the handler failed: not called before this time
    val retries = Backoff()

    val wanted: Boolean get() = status == RegistrationStatus.PENDING_REGISTRATION || status == RegistrationStatus.REGISTERED

    val unsent: Boolean
        get() = !sent && (status == RegistrationStatus.PENDING_REGISTRATION || status == RegistrationStatus.PENDING_UNREGISTRATION)

    fun view() = ObjectStatus(key.group, key.name, status, version, unknown, error)

    /**
     * Whether the version of a signal is handled already. After an unknown version even the one handled before counts as new: the handler was
     * told that it may not be the latest.
     */
    fun covers(s: Signal): Boolean {
        var last = version
        var isUnknown = unknown || anew
        var under = if (anew) 0 else floor
        for (other in listOfNotNull(running, waiting)) {
            isUnknown = other.unknown
            if (other.unknown) under = other.version else last = other.version
        }
        return if (isUnknown) s.version < last || s.version <= under else s.version <= last
    }
}
