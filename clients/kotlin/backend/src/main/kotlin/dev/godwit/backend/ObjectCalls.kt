@file:JvmName("ObjectCalls")

package dev.godwit.backend

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.ServerException
import dev.godwit.http.fetch
import dev.godwit.http.order
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.readContent
import dev.godwit.wire.requireName
import dev.godwit.wire.requireObject
import dev.godwit.wire.text
import kotlinx.coroutines.flow.Flow
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

    private val content = readContent(m, "payload")

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
public class ObjectRegistration internal constructor(m: JsonMembers) {
    /** The recipient. */
    public val recipient: String = m.string("recipient")

    /** The device; empty: the registration lasts for the session. */
    public val device: String = m.string("device")

    /** Whether it is connected. */
    public val online: Boolean = m.boolean("online")

    /** When it was last connected. */
    public val lastSeen: Instant? = m.time("last_seen")

    /** The version that it was last sent; 0: none yet. */
    public val sentVersion: Long = m.version("sent_version")

    /** The version that it acknowledged last; 0: none yet. */
    public val ackedVersion: Long = m.version("acked_version")
}

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
        content("payload", contentOf("payload", payload, contentType))
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
    requireObject("put", group, name)
    return fetch(ApiCall("PUT", "objects", group, name, body = body.toString())) { PutResult(it.version("version"), it.boolean("changed")) }
}

/** Does the same as [declareUnknown]. Later versions of the object exceed all earlier ones. */
public suspend fun GodwitClient.deleteObject(group: String, name: String) {
    requireObject("delete", group, name)
    order(ApiCall("DELETE", "objects", group, name))
}

/**
 * Reads an object.
 *
 * @throws ServerException with status 404 if the object was never put
 */
public suspend fun GodwitClient.getObject(group: String, name: String): StoredObject {
    requireObject("get", group, name)
    return fetch(ApiCall("GET", "objects", group, name)) { StoredObject(it, group, name) }
}

/** The objects of a group whose names begin with [prefix], ordered by name. */
@JvmOverloads
public fun GodwitClient.listObjects(group: String, prefix: String = ""): Flow<StoredObject> {
    requireName("list objects: group", group)
    return pages(mapOf("limit" to "$PAGE", "prefix" to prefix.ifEmpty { null }), "objects", group) { StoredObject(it, group, "") }
}

private const val PAGE = 500

/** The clients that are registered for an object, connected or not, and the version that each has received. */
public suspend fun GodwitClient.registrations(group: String, name: String): List<ObjectRegistration> {
    requireObject("registrations", group, name)
    return fetchList(ApiCall("GET", "objects", group, name, "registrations")) { ObjectRegistration(it) }
}
