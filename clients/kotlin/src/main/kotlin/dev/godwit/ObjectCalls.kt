@file:JvmName("ObjectCalls")

package dev.godwit

import dev.godwit.http.Api
import dev.godwit.objects.ObjectKey
import dev.godwit.wire.Content
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.text
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.builtins.ListSerializer
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlin.time.Instant

/** The object's state on the server after a put. */
public class PutResult internal constructor(
    /** The stored version; of an unknown object: the floor. */
    public val version: Long,
    /** False: the put's version was not above the stored one. */
    public val changed: Boolean,
)

/** The server's state of an object. */
public class StoredObject internal constructor(m: JsonMembers, group: String, name: String) {
    /** The object's group. */
    public val group: String = m.string("group").ifEmpty { group }

    /** The object's name in its group. */
    public val name: String = m.string("object").ifEmpty { name }

    /** If [unknown]: the floor, which the next version exceeds. */
    public val version: Long = m.version("version")

    /** The latest version is unknown, or the object was deleted. */
    public val unknown: Boolean = m.boolean("unknown")

    private val content = Content.read(m, "payload")

    /** JSON, text or bytes, as [contentType] says. */
    public val payload: ByteArray get() = content.data

    /** The type of [payload]. */
    public val contentType: String get() = content.type

    /** Who made this version. */
    public val source: String = m.string("source")

    /** When. */
    public val updatedAt: Instant? = m.time("updated_at")

    /** Names the object and its version. */
    override fun toString(): String = "StoredObject($group/$name at $version)"
}

/** One client's registration for an object. */
@Serializable
public class ObjectRegistration internal constructor(
    /** The recipient. */
    public val recipient: String,
    /** The device; empty: the registration lasts for the session. */
    public val device: String = "",
    /** Whether it is connected. */
    public val online: Boolean = false,
    /** When it was last connected. */
    @SerialName("last_seen") public val lastSeen: Instant? = null,
    /** The version that it was last sent, as text; `0`: none yet. */
    @SerialName("sent_version") public val sentVersion: String = "0",
    /** The version that it acknowledged last, as text; `0`: none yet. */
    @SerialName("acked_version") public val ackedVersion: String = "0",
)

/**
 * Gives an object a new version, and returns once it is on the server's disk. Every client registered for the object eventually receives this version
 * or a later one.
 *
 * @param payload at most 4 KB: JSON, text or bytes
 * @param version changes the object only if it is above the current one; 0: the server chooses the next. A retry after a failure may then count twice,
 *     which only skips a version
 * @param source the client that caused the change, `recipient` or `recipient/device`: it gets no signal
 */
@JvmOverloads
public suspend fun GodwitClient.putObject(
    group: String,
    name: String,
    payload: ByteArray = ByteArray(0),
    contentType: String = "",
    version: Long = 0,
    source: String = "",
): PutResult = put(
    group,
    name,
    buildJsonObject {
        if (version != 0L) put("version", version.toString())
        Content.of("payload", payload, contentType).addTo(this, "payload")
        text("source", source)
    },
)

/**
 * Declares that an object's latest version is unknown: clients then fetch the object from its source. The version stays as a floor, which the next one
 * must exceed; a higher [floor] replaces it.
 */
@JvmOverloads
public suspend fun GodwitClient.declareUnknown(group: String, name: String, floor: Long = 0): PutResult = put(
    group,
    name,
    buildJsonObject {
        put("unknown", true)
        if (floor != 0L) put("version", floor.toString())
    },
)

private suspend fun GodwitClient.put(group: String, name: String, body: JsonObject): PutResult {
    ObjectKey(group, name).check("put")
    val m = membersOf(api.call(Api.Call("PUT", "objects", group, name, body = body.toString())))
    return reading { PutResult(m.version("version"), m.boolean("changed")) }
}

/** Does the same as [declareUnknown]. Later versions of the object exceed all earlier ones. */
public suspend fun GodwitClient.deleteObject(group: String, name: String) {
    ObjectKey(group, name).check("delete")
    api.call(Api.Call("DELETE", "objects", group, name))
}

/**
 * Reads an object.
 *
 * @throws ServerException with status 404 if the object was never put
 */
public suspend fun GodwitClient.getObject(group: String, name: String): StoredObject {
    ObjectKey(group, name).check("get")
    val m = membersOf(api.call(Api.Call("GET", "objects", group, name)))
    return reading { StoredObject(m, group, name) }
}

/** The objects of a group whose names begin with [prefix], ordered by name. */
@JvmOverloads
public fun GodwitClient.listObjects(group: String, prefix: String = ""): Flow<StoredObject> = flow {
    requireName("list objects: group", group)
    var cursor = ""
    do {
        val page = mapOf("limit" to "$PAGE", "prefix" to prefix.ifEmpty { null }, "cursor" to cursor.ifEmpty { null })
        val m = membersOf(api.call(Api.Call("GET", "objects", group, query = page)))
        for (item in reading { m.texts("items") }) emit(reading { StoredObject(membersOf(item), group, "") })
        cursor = reading { m.string("next_cursor") }
    } while (cursor.isNotEmpty())
}

private const val PAGE = 500

/** The clients that are registered for an object, connected or not, and the version that each has received. */
public suspend fun GodwitClient.registrations(group: String, name: String): List<ObjectRegistration> {
    ObjectKey(group, name).check("registrations")
    return decode(ListSerializer(ObjectRegistration.serializer()), api.call(Api.Call("GET", "objects", group, name, "registrations")))
}
