package dev.godwit.live

import dev.godwit.Token
import dev.godwit.UnreachableException
import kotlinx.coroutines.channels.ReceiveChannel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.withTimeoutOrNull

/** Receives what comes within a time; null: nothing has. */
internal suspend fun <T> ReceiveChannel<T>.receiveWithin(millis: Long): T? = withTimeoutOrNull(millis) { receive() }

/** Asks a program's provider for a token. */
internal suspend fun asked(tokens: suspend () -> Token): Token = try {
    tokens()
} catch (e: Exception) {
    currentCoroutineContext().ensureActive() // a CancellationException may be the provider's own, as of a withTimeout
    throw UnreachableException("get token: ${e.message}", e)
}
