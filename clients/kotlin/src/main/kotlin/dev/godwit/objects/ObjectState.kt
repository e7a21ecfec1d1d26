package dev.godwit.objects

import dev.godwit.RegistrationStatus
import dev.godwit.Storage
import dev.godwit.http.json
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import java.io.IOException

/** The client whose registrations are stored. */
@Serializable
internal data class Owner(val app: String, val recipient: String, val device: String) {
    override fun toString() = "recipient \"$recipient\", device \"$device\" of app \"$app\""
}

/** The document of registrations, the same in every language. */
@Serializable
internal class ObjectState(val format: Int = 0, val owner: Owner? = null, val objects: List<Entry> = emptyList()) {
    @Serializable
    class Entry(
        val group: String,
        val `object`: String,
        val status: RegistrationStatus,
        // A string or a number in the document, and a string when it is written.
        val version: String = "0",
        val unknown: Boolean = false,
        val floor: String = "0",
    )

    /** Adds what is stored to registrations that have nothing yet. */
    fun addTo(registrations: Registrations) {
        for (stored in objects) {
            val key = ObjectKey(stored.group, stored.`object`)
            registrations.want(key, null)
            val e = registrations.entries.getValue(key)
            e.status = stored.status
            e.version = stored.version.toLong()
            e.unknown = stored.unknown
            e.floor = stored.floor.toLong()
            e.anew = false
            if (!e.wanted) registrations.digest -= key.hash
        }
        registrations.fresh = false
        registrations.changes.clear()
        registrations.revision = 0
    }

    fun encode(): ByteArray = json.encodeToString(serializer(), this).encodeToByteArray()

    private fun check() {
        if (format < 1) throw SerializationException("has no format")
        for (e in objects) {
            try {
                ObjectKey(e.group, e.`object`).check("state")
                e.version.toLong()
                e.floor.toLong()
            } catch (invalid: IllegalArgumentException) {
                throw SerializationException(invalid)
            }
            if (e.status == RegistrationStatus.UNREGISTERED) throw SerializationException("has an object that is not registered")
        }
    }

    companion object {
        /** Grows with changes that older programs cannot read. */
        private const val FORMAT = 1

        /** Reads the stored document; null: there is none. One that cannot be understood is set aside. */
        fun read(storage: Storage): ObjectState? {
            val content = storage.read() ?: return null
            val state = try {
                json.decodeFromString(serializer(), content.decodeToString()).apply { check() }
            } catch (_: SerializationException) {
                storage.setAside()
                return null
            }
            if (state.format > FORMAT) throw IOException("read state: $storage was written by a later version of this program")
            return state
        }

        fun of(registrations: Registrations, owner: Owner?): ObjectState = ObjectState(
            FORMAT,
            owner,
            registrations.entries.values.sortedBy { it.key }.map {
                Entry(it.key.group, it.key.name, it.status, it.version.toString(), it.unknown, it.floor.toString())
            },
        )
    }
}
