package dev.godwit.http

import dev.godwit.GodwitException
import dev.godwit.ServerException
import dev.godwit.wire.JsonMembers
import okhttp3.Response
import java.io.IOException
import java.text.ParseException
import java.text.SimpleDateFormat
import java.util.Locale
import java.util.TimeZone

/** Reads an RFC 9457 problem. */
internal fun problemOf(m: JsonMembers, httpStatus: Int = m.int("status"), retryAfterMillis: Long = 0) =
    ServerException(httpStatus, m.string("type"), m.string("title"), m.string("detail"), m.string("field"), retryAfterMillis)

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
    val after = retryAfterMillis(response.header("Retry-After").orEmpty(), System.currentTimeMillis())
    if (isProblem) {
        try {
            return read(body) { problemOf(it, response.code, after) }
        } catch (_: GodwitException) {
            // It is as unreadable as any other answer.
        }
    }
    return ServerException(response.code, "", response.message, body.trim().take(LONGEST_DETAIL), "", after)
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
