package dev.godwit.messaging.objects

import dev.godwit.Storage
import dev.godwit.messaging.RegistrationStatus
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.MemberException
import dev.godwit.wire.isName
import dev.godwit.wire.objects
import dev.godwit.wire.readStored
import dev.godwit.wire.stored
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject

/** The client whose registrations are stored. */
internal data class Owner(val app: String, val recipient: String, val device: String) {
    override fun toString() = "recipient \"$recipient\", device \"$device\" of app \"$app\""
}

/** The document of registrations, the same in every language. */
internal class ObjectState(val owner: Owner?, private val objects: List<Entry>) {
    class Entry(val key: ObjectKey, val status: RegistrationStatus, val version: Long, val unknown: Boolean, val floor: Long)

    /** Adds what is stored to registrations that have nothing yet. */
    fun addTo(registrations: Registrations) {
        for (stored in objects) {
            registrations.want(stored.key, null)
            val e = registrations.entries.getValue(stored.key)
            e.status = stored.status
            e.version = stored.version
            e.unknown = stored.unknown
            e.floor = stored.floor
            e.anew = false
            if (!e.wanted) registrations.digest -= stored.key.hash
        }
        registrations.fresh = false
        registrations.changes.clear()
        registrations.revision = 0
    }

    fun encode(): ByteArray = stored {
        put("format", FORMAT)
        owner?.let {
            putJsonObject("owner") {
                put("app", it.app)
                put("recipient", it.recipient)
                put("device", it.device)
            }
        }
        objects("objects", objects) {
            put("group", it.key.group)
            put("object", it.key.name)
            put("status", it.status.text)
            put("version", it.version.toString())
            if (it.unknown) put("unknown", true)
            if (it.floor != 0L) put("floor", it.floor.toString())
        }
    }

    companion object {
        /** Grows with changes that older programs cannot read. */
        private const val FORMAT = 1

        /** Reads the stored document; null: there is none. One that cannot be understood is set aside. */
        fun read(storage: Storage): ObjectState? {
            val content = storage.read() ?: return null
            val state = readStored(content, FORMAT, { "state, in $storage" }) { decode(it) }
            if (state == null) storage.setAside()
            return state
        }

        private fun decode(m: JsonMembers): ObjectState {
            if (m.int("format") < 1) throw MemberException("format", "is absent")
            val owner = m.members("owner")?.let { Owner(it.string("app"), it.string("recipient"), it.string("device")) }
            return ObjectState(owner, m.objects("objects").map { entry(it) })
        }

        private fun entry(m: JsonMembers): Entry {
            val key = ObjectKey(m.string("group"), m.string("object"))
            val named = isName(key.group) && isName(key.name)
            val text = m.string("status")
            val status = RegistrationStatus.values().find { it.text == text && it != RegistrationStatus.UNREGISTERED }
            if (!named || status == null) throw MemberException("objects", "have an entry that is none")
            return Entry(key, status, m.version("version"), m.boolean("unknown"), m.version("floor"))
        }

        fun of(registrations: Registrations, owner: Owner?): ObjectState = ObjectState(
            owner,
            registrations.entries.values.sortedBy { it.key }.map { Entry(it.key, it.status, it.version, it.unknown, it.floor) },
        )
    }
}
