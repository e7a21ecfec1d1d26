package dev.godwit.http

import dev.godwit.ApiCall
import dev.godwit.ServerException
import dev.godwit.UnreachableException
import kotlinx.coroutines.delay
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
    val key: String,
    val attempts: Int,
    timeoutMillis: Long,
    private val onRetry: ((Throwable, Long) -> Unit)?,
) {
    val http: OkHttpClient = http.newBuilder().callTimeout(timeoutMillis, TimeUnit.MILLISECONDS).readTimeout(0, TimeUnit.MILLISECONDS).build()

    /** Whether calls are a back end's, which names whom it means. */
    val hasKey: Boolean get() = key.isNotEmpty()

    /** Carries out a call, retries it after temporary failures, and returns the body of its answer. */
    suspend fun call(call: ApiCall, bearer: String = key): String {
        val wait = requestBackoff()
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

    /** Carries out a call once. */
    suspend fun once(call: ApiCall, body: RequestBody? = null, bearer: String = key): String = text(http.newCall(request(call, body, bearer)).await())

    /** The request of a call, whose body is another than text if one is [given]. */
    fun request(call: ApiCall, given: RequestBody? = null, bearer: String = key): Request {
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
        val body = readingAnswer { it.body.string() }
        if (!it.isSuccessful) throw problemOf(it, body)
        body
    }
}

/** A connection that fails within an answer is that of a server which cannot be reached. */
internal inline fun <T> readingAnswer(read: () -> T): T = try {
    read()
} catch (e: IOException) {
    throw UnreachableException("read answer: ${e.message}", e)
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

internal fun unreachable(e: IOException) = UnreachableException("reach server: ${e.message ?: e.javaClass.simpleName}", e)
