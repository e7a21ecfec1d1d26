package dev.godwit

import dev.godwit.wire.JsonMembers
import dev.godwit.wire.JsonScanner
import dev.godwit.wire.MemberException
import dev.godwit.wire.splitInto
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow

// The HTTP API's answers are read member by member, as frames are: members of later servers are ignored, and one of the wrong type is named.

/** Reads an answer that is an object. */
internal fun <T> read(answer: String, read: (JsonMembers) -> T): T {
    val members = LinkedHashMap<String, String>()
    if (!JsonScanner(answer).splitInto(members)) throw GodwitException("read answer: is not a JSON object")
    return reading { read(JsonMembers(members)) }
}

/** Carries out a call whose answer is a list of objects. */
internal suspend fun <T> GodwitClient.fetchList(call: ApiCall, read: (JsonMembers) -> T): List<T> {
    val answer = authorised(call)
    return reading { JsonMembers(mapOf("answer" to answer)).objects("answer").map(read) }
}

private inline fun <T> reading(read: () -> T): T = try {
    read()
} catch (e: MemberException) {
    throw GodwitException("read answer: ${e.message}", e)
}

/** Carries out a call and reads its answer. Functions that end in it need no state machine of their own, each of which is a class of 2 KB. */
internal suspend fun <T> GodwitClient.fetch(call: ApiCall, read: (JsonMembers) -> T): T = read(authorised(call), read)

/** Carries out a call whose answer says nothing. */
internal suspend fun GodwitClient.order(call: ApiCall) {
    authorised(call)
}

/** The items of all pages of a list. */
internal fun <T> GodwitClient.pages(query: Map<String, String?>, vararg path: String, read: (JsonMembers) -> T): Flow<T> = flow {
    var cursor = ""
    do {
        val page = fetch(ApiCall("GET", *path, query = query + ("cursor" to cursor.ifEmpty { null }))) { it }
        for (item in reading { page.objects("items").map(read) }) emit(item)
        cursor = reading { page.string("next_cursor") }
    } while (cursor.isNotEmpty())
}
