package dev.godwit.live

import kotlinx.coroutines.channels.ReceiveChannel
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.withTimeoutOrNull

/** Receives what comes within a time; null: nothing has. */
internal suspend fun <T> ReceiveChannel<T>.receiveWithin(millis: Long): T? = withTimeoutOrNull(millis) { receive() }

/** Has those who wait for a change look again. */
internal fun MutableStateFlow<Long>.moveOn() = update { it + 1 }
