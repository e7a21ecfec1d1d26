@file:JvmName("Calls")

package dev.godwit.backend

import dev.godwit.Answer
import dev.godwit.ApiCall
import dev.godwit.GodwitClient
import dev.godwit.http.Api
import dev.godwit.http.await
import dev.godwit.http.fetch
import dev.godwit.http.problemOf
import dev.godwit.http.reading
import dev.godwit.http.readingAnswer
import dev.godwit.http.unreachable
import dev.godwit.wire.JsonMembers
import kotlinx.coroutines.channels.ChannelResult
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.flow.flow
import okhttp3.Call
import okhttp3.Callback
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import java.io.IOException
import java.util.concurrent.TimeUnit

/**
 * The lines of an answer that is a stream of them, as that of `/v1/events`: one JSON value each. It is called with the key, and not tried again. Only
 * the end of the collection limits its duration.
 */
public fun GodwitClient.lines(call: ApiCall): Flow<String> = api.lines(call) { it }

/** Carries out a call whose answer has a list of objects as a member; null: it is that list. */
internal suspend fun <T> GodwitClient.fetchList(call: ApiCall, member: String? = null, read: (JsonMembers) -> T): List<T> {
    val answer = authorised(call)
    return reading {
        if (member ==
            null
        ) {
            JsonMembers(mapOf("answer" to answer)).objects("answer").map(read)
        } else {
            dev.godwit.http.read(answer) { it.objects(member).map(read) }
        }
    }
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

/** The body of a request whose data need not be JSON. */
internal fun body(data: ByteArray, contentType: String): RequestBody = data.toRequestBody(contentType.ifEmpty { null }?.toMediaType())

/** Sends a request to a worker or client and returns its answer. A redirect is an answer too. */
internal suspend fun Api.ask(call: ApiCall, data: ByteArray, contentType: String, waitMillis: Long): Answer {
    val timeout = waitMillis + http.callTimeoutMillis
    val patient = http.newBuilder().followRedirects(false).retryOnConnectionFailure(false).callTimeout(timeout, TimeUnit.MILLISECONDS).build()
    patient.newCall(request(call, body(data, contentType))).await().use { response ->
        val type = response.header("Content-Type").orEmpty()
        val answer = readingAnswer { response.body.bytes() }
        val problem = if (type == PROBLEM) problemOf(response, answer.decodeToString()) else null
        if (problem != null && problem.type.startsWith("/problems/")) throw problem
        return Answer(answer, type, response.code, response.headers.toMultimap())
    }
}

/** Reads an answer that comes line by line, on a thread of the HTTP client's. */
internal fun <T> Api.lines(call: ApiCall, read: (String) -> T): Flow<T> = callbackFlow {
    val patient = http.newBuilder().callTimeout(0, TimeUnit.MILLISECONDS).build()
    val running = patient.newCall(request(call))
    running.enqueue(object : Callback {
        override fun onResponse(call: Call, response: Response) {
            close(runCatching { response.use { each(it) { line -> trySendBlocking(read(line)) } } }.exceptionOrNull())
        }

        override fun onFailure(call: Call, e: IOException) {
            close(unreachable(e))
        }
    })
    awaitClose { running.cancel() }
}

private fun each(response: Response, take: (String) -> ChannelResult<*>) {
    if (!response.isSuccessful) throw problemOf(response)
    val lines = response.body.source()
    while (true) {
        val line = readingAnswer { lines.readUtf8Line() } ?: break
        if (line.isNotBlank() && take(line).isFailure) break // an empty one is a sign of life
    }
}

private const val PROBLEM = "application/problem+json"
