package dev.godwit

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/** The state of a registration. Pending states end as soon as client and server have agreed. */
@Serializable
public enum class RegistrationStatus {
    /** Wanted, and not confirmed yet. */
    @SerialName("pending registration")
    PENDING_REGISTRATION,

    /** Confirmed by the server. */
    @SerialName("registered")
    REGISTERED,

    /** No longer wanted, and the end not confirmed yet. */
    @SerialName("pending unregistration")
    PENDING_UNREGISTRATION,

    /** Also the status of objects that were never registered. */
    @SerialName("unregistered")
    UNREGISTERED,

    /** Refused for good; registering the object again makes a new request. */
    @SerialName("refused")
    REFUSED,
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
