package dev.godwit.http

import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.GodwitException
import dev.godwit.live.Backoff
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.MemberException
import dev.godwit.wire.membersOf

// The HTTP API's answers are read member by member, as frames are: members of later servers are ignored, and one of the wrong type is named.

/** Reads an answer that is an object. */
internal fun <T> read(answer: String, read: (JsonMembers) -> T): T {
    val members = membersOf(answer) ?: throw GodwitException("read answer: is not a JSON object")
    return reading { read(members) }
}

/** What cannot be read names its member. */
internal inline fun <T> reading(read: () -> T): T = try {
    read()
} catch (e: MemberException) {
    throw GodwitException("read answer: ${e.message}", e)
}

/** Carries out a call and reads its answer. Functions that end in it need no state machine of their own, each of which is a class of 2 KB. */
internal suspend fun <T> GodwitClient.fetch(call: ApiCall, read: (JsonMembers) -> T): T = read(authorised(call), read)

/** The waits between tries of a request: up to 100 ms, doubling to 10 s. */
internal fun requestBackoff() = Backoff(100, 10_000)

/** Carries out a call whose answer says nothing. */
internal suspend fun GodwitClient.order(call: ApiCall) {
    authorised(call)
}
