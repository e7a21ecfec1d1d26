@file:JvmName("Inboxes")

package dev.godwit

import dev.godwit.http.fetch
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.needed
import dev.godwit.wire.readContent
import dev.godwit.wire.requireName
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlin.time.Instant

/** The counts of an inbox. */
public class InboxCounts internal constructor(m: JsonMembers) {
    /** Items that came since the list was last opened. */
    public val unseen: Int = m.int("unseen")

    /** Items that are not read. */
    public val unread: Int = m.int("unread")

    /** All items, archived ones too. */
    public val total: Int = m.int("total")
}

/** A kept notification. */
public class InboxItem internal constructor(m: JsonMembers) {
    /** The notification's id. */
    public val id: String = m.string("id")

    /** The title. */
    public val title: String = m.string("title")

    /** The text. */
    public val body: String = m.string("body")

    /** The category. */
    public val category: String = m.string("category")

    private val content = readContent(m, "data")

    /** JSON, text or bytes, as [contentType] says. */
    public val data: ByteArray get() = content.data

    /** The type of [data]. */
    public val contentType: String get() = content.type

    /** Choices that it offers. */
    public val actions: List<Action> = m.objects("actions").map { Action(it.needed("id"), it.string("title"), it.string("url")) }

    /** When it was published. */
    public val createdAt: Instant? = m.time("created_at")

    /** Until when it is kept. */
    public val keptUntil: Instant? = m.time("kept_until")

    /** When it was seen in a list; null: not yet. */
    public val seenAt: Instant? = m.time("seen_at")

    /** When it was read; null: not yet. */
    public val readAt: Instant? = m.time("read_at")

    /** When it was archived; null: it is not. */
    public val archivedAt: Instant? = m.time("archived_at")

    /** It stays on top. */
    public val pinned: Boolean = m.boolean("pinned")
}

/** A page of an inbox, newest first, with the counts of the whole inbox in the same moment. */
public class InboxPage internal constructor(m: JsonMembers) {
    /** The counts of the whole inbox. */
    public val counts: InboxCounts = InboxCounts(m)

    /** The items. */
    public val items: List<InboxItem> = m.objects("items").map { InboxItem(it) }

    /** What this page and those before it have listed, for [markInboxAll]. */
    public val until: String = m.string("until")

    /** The page behind this one; empty: this is the last. */
    public val nextCursor: String = m.string("next_cursor")
}

/**
 * Reads a page of a recipient's inbox. An API key reads anybody's, a client's token its own.
 *
 * @param state `all` (what is not archived), `unseen`, `unread`, `archived` or `pinned`
 * @param category null: any; empty: items without a category
 * @param limit 0: 100; at most 1,000
 */
@JvmOverloads
public suspend fun GodwitClient.inbox(recipient: String, state: String = "all", category: String? = null, limit: Int = 0, cursor: String = ""): InboxPage {
    val page = mapOf("state" to state, "category" to category, "limit" to limit.takeIf { it != 0 }?.toString(), "cursor" to cursor.ifEmpty { null })
    return fetch(ApiCall("GET", "inbox", query = inboxOf(recipient) + page)) { InboxPage(it) }
}

/** Reads the counts of a recipient's inbox. */
public suspend fun GodwitClient.inboxCounts(recipient: String): InboxCounts =
    fetch(ApiCall("GET", "inbox", "counts", query = inboxOf(recipient))) { InboxCounts(it) }

/**
 * Changes an item of a recipient's inbox and returns it. Null leaves a mark as it is; a read or archived item counts as seen.
 *
 * @throws ServerException with status 404 if the inbox does not have it
 */
@JvmOverloads
public suspend fun GodwitClient.markInbox(
    recipient: String,
    id: String,
    seen: Boolean? = null,
    read: Boolean? = null,
    archived: Boolean? = null,
    pinned: Boolean? = null,
): InboxItem {
    requireName("mark: id", id)
    val body = buildJsonObject {
        seen?.let { put("seen", it) }
        read?.let { put("read", it) }
        archived?.let { put("archived", it) }
        pinned?.let { put("pinned", it) }
    }
    return fetch(ApiCall("POST", "inbox", id, query = inboxOf(recipient), body = body.toString())) { m ->
        InboxItem(m.members("item") ?: throw GodwitException("read answer: has no item"))
    }
}

/** What [markInboxAll] marks items as. */
public enum class InboxMark {
    /** They were listed. */
    SEEN,

    /** They were read. */
    READ,

    /** They are out of the way. */
    ARCHIVED,
}

/** Marks everything that is not archived, or what a page has listed with those before it. */
@JvmOverloads
public suspend fun GodwitClient.markInboxAll(recipient: String, mark: InboxMark, until: String = ""): InboxCounts {
    val body = buildJsonObject { if (until.isNotEmpty()) put("until", until) }
    return fetch(ApiCall("POST", "inbox", mark.name.lowercase(), query = inboxOf(recipient), body = body.toString())) { InboxCounts(it) }
}

/** Names the recipient: by `to` for an API key; a token names its own, and a development server's clients name themselves. */
private fun GodwitClient.inboxOf(recipient: String): Map<String, String?> {
    requireName("inbox: recipient", recipient)
    return if (api.hasKey) mapOf("to" to recipient) else mapOf("recipient" to recipient, "app" to app.ifEmpty { null })
}
