package dev.godwit.messaging

import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.update

/** Has those who wait for a change look again. */
internal fun MutableStateFlow<Long>.moveOn() = update { it + 1 }
