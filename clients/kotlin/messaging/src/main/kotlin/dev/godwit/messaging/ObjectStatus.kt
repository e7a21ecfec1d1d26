package dev.godwit.messaging

import dev.godwit.GodwitException

/** The state of a registration. Pending states end as soon as client and server have agreed. */
public enum class RegistrationStatus {
    /** Wanted, and not confirmed yet. */
    PENDING_REGISTRATION,

    /** Confirmed by the server. */
    REGISTERED,

    /** No longer wanted, and the end not confirmed yet. */
    PENDING_UNREGISTRATION,

    /** Also the status of objects that were never registered. */
    UNREGISTERED,

    /** Refused for good; registering the object again makes a new request. */
    REFUSED,
    ;

    /** As it is stored, the same in every language. */
    internal val text: String get() = name.lowercase().replace('_', ' ')
}

/** One registration and the newest version that was handled. */
public class ObjectStatus internal constructor(
    /** The object's group. */
    public val group: String,
    /** The object's name in its group. */
    public val name: String,
    /** The state of the registration. */
    public val status: RegistrationStatus,
    /** The newest version that was handled; 0: none yet. */
    public val version: Long,
    /** The last signal said that the version is unknown. */
    public val unknown: Boolean,
    /** Why the server refused the registration, for good or for now. */
    public val error: RegistrationException?,
) {
    /** Names the object and its state. */
    override fun toString(): String = "ObjectStatus($group/$name $status at $version)"
}

/** Why the server refused a registration. */
public class RegistrationException internal constructor(
    /** The object's group. */
    public val group: String,
    /** The object's name in its group. */
    public val name: String,
    /** For programs: `forbidden`, `too_many`, `group_required`, `unavailable` and others. */
    public val code: String,
    /** It is tried again. */
    public val transient: Boolean,
) : GodwitException("server refused the registration for $group/$name: $code")
