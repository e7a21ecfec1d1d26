package dev.godwit.http

import dev.godwit.Answer
import dev.godwit.ApiCall
import dev.godwit.ServerException
import dev.godwit.UnreachableException
import dev.godwit.live.Backoff
import kotlinx.coroutines.channels.ChannelResult
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.suspendCancellableCoroutine
import okhttp3.Call
import okhttp3.Callback
import okhttp3.HttpUrl
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import java.io.IOException
import java.util.concurrent.TimeUnit
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/** Calls the HTTP API. */
internal class Api(
    http: OkHttpClient,
    private val server: HttpUrl,
    private val key: String,
    val attempts: Int,
    timeoutMillis: Long,
    private val onRetry: ((Throwable, Long) -> Unit)?,
) {
    private val http = http.newBuilder().callTimeout(timeoutMillis, TimeUnit.MILLISECONDS).readTimeout(0, TimeUnit.MILLISECONDS).build()

    /** Whether calls are a back end's, which names whom it means. */
    val hasKey: Boolean get() = key.isNotEmpty()

    /** Carries out a call, retries it after temporary failures, and returns the body of its answer. */
    suspend fun call(call: ApiCall, bearer: String = key): String {
        val wait = Backoff.ofRequests()
        var tries = 0
        while (true) {
            val failure = try {
                return once(call, bearer = bearer)
            } catch (e: ServerException) {
                if (!e.temporary) throw e
                e
            } catch (e: UnreachableException) {
                e
            }
            if (++tries >= attempts) throw failure
            val pause = maxOf(wait.next(), (failure as? ServerException)?.retryAfterMillis ?: 0)
            onRetry?.invoke(failure, pause)
            delay(pause)
        }
    }

    /** Carries out a call that must not be carried out twice. */
    suspend fun once(call: ApiCall, body: RequestBody? = null, bearer: String = key): String = text(http.newCall(request(call, body, bearer)).await())

    /** Sends a request to a worker or client and returns its answer. A redirect is an answer too. */
    suspend fun ask(call: ApiCall, data: ByteArray, contentType: String, waitMillis: Long): Answer {
        val timeout = waitMillis + http.callTimeoutMillis
        val patient = http.newBuilder().followRedirects(false).retryOnConnectionFailure(false).callTimeout(timeout, TimeUnit.MILLISECONDS).build()
        val body = data.toRequestBody(contentType.ifEmpty { null }?.toMediaType())
        patient.newCall(request(call, body, key)).await().use { response ->
            val type = response.header("Content-Type").orEmpty()
            val answer = reading { response.body.bytes() }
            val problem = if (type == PROBLEM) problemOf(response, answer.decodeToString()) else null
            if (problem != null && problem.type.startsWith("/problems/")) throw problem
            return Answer(answer, type, response.code, response.headers.toMultimap())
        }
    }

    /** Reads an answer that comes line by line, on a thread of the HTTP client's. */
    fun <T> lines(call: ApiCall, read: (String) -> T): Flow<T> = callbackFlow {
        val patient = http.newBuilder().callTimeout(0, TimeUnit.MILLISECONDS).build()
        val running = patient.newCall(request(call, null, key))
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
            val line = reading { lines.readUtf8Line() } ?: break
            if (line.isNotBlank() && take(line).isFailure) break // an empty one is a sign of life
        }
    }

    private fun request(call: ApiCall, given: RequestBody?, bearer: String): Request {
        val url = server.newBuilder().addPathSegment("v1").apply {
            for (name in call.path) addPathSegment(name)
            for ((name, value) in call.query) if (value != null) addQueryParameter(name, value)
        }
        val text = call.body ?: if (call.method == "GET" || call.method == "DELETE") null else ""
        return Request.Builder().url(url.build()).method(call.method, given ?: text?.encodeToByteArray()?.toRequestBody(call.contentType.toMediaType())).apply {
            for ((name, value) in call.headers) header(name, value)
            if (bearer.isNotEmpty()) header("Authorization", "Bearer $bearer")
        }.build()
    }

    /** The answer's body, or the error that it is. */
    private fun text(response: Response): String = response.use {
        val body = reading { it.body.string() }
        if (!it.isSuccessful) throw problemOf(it, body)
        body
    }

    private inline fun <T> reading(read: () -> T): T = try {
        read()
    } catch (e: IOException) {
        throw UnreachableException("read answer: ${e.message}", e)
    }

    private companion object {
        const val PROBLEM = "application/problem+json"
    }
}

/** Waits for the answer's head. */
internal suspend fun Call.await(): Response = suspendCancellableCoroutine { waiting ->
    waiting.invokeOnCancellation { cancel() }
    enqueue(object : Callback {
        override fun onResponse(call: Call, response: Response) = waiting.resume(response) { _, late, _ -> late.close() }

        override fun onFailure(call: Call, e: IOException) {
            if (waiting.isActive) waiting.resumeWithException(unreachable(e))
        }
    })
}

private fun unreachable(e: IOException) = UnreachableException("reach server: ${e.message ?: e.javaClass.simpleName}", e)
