package dev.godwit.http

import dev.godwit.ServerException
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import okhttp3.Response
import java.io.IOException
import java.text.ParseException
import java.text.SimpleDateFormat
import java.util.Locale
import java.util.TimeZone

/** How answers are read: fields of later servers are ignored. */
internal val json = Json {
    ignoreUnknownKeys = true
    coerceInputValues = true
    explicitNulls = false
}

/** An RFC 9457 problem. */
@Serializable
internal class Problem(
    private val type: String = "",
    private val title: String = "",
    private val status: Int = 0,
    private val detail: String = "",
    private val field: String = "",
) {
    fun exception(httpStatus: Int = status, retryAfterMillis: Long = 0) = ServerException(httpStatus, type, title, detail, field, retryAfterMillis)
}

/** Reads the error from a response that is not a success. */
internal fun problemOf(response: Response): ServerException {
    val body = try {
        response.peekBody(LONGEST_PROBLEM).string()
    } catch (_: IOException) {
        ""
    }
    return problemOf(response, body)
}

internal fun problemOf(response: Response, body: String): ServerException {
    val isProblem = response.header("Content-Type").orEmpty().startsWith("application/problem+json")
    val problem = try {
        if (isProblem) json.decodeFromString(Problem.serializer(), body) else null
    } catch (_: SerializationException) {
        null
    }
    val after = retryAfterMillis(response.header("Retry-After").orEmpty(), System.currentTimeMillis())
    return (problem ?: Problem(title = response.message, detail = body.trim().take(LONGEST_DETAIL))).exception(response.code, after)
}

/** Reads RFC 9110 section 10.2.3: seconds or a date. */
internal fun retryAfterMillis(text: String, nowMillis: Long): Long {
    text.toIntOrNull()?.let { return maxOf(it, 0) * MILLIS }
    val date = SimpleDateFormat("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US).apply { timeZone = TimeZone.getTimeZone("GMT") }
    return try {
        maxOf((date.parse(text)?.time ?: nowMillis) - nowMillis, 0)
    } catch (_: ParseException) {
        0
    }
}

private const val MILLIS = 1000L
private const val LONGEST_DETAIL = 200
private const val LONGEST_PROBLEM = 64L shl 10
