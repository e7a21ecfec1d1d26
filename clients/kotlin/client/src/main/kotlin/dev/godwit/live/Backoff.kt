package dev.godwit.live

import kotlin.random.Random

/**
 * Spreads retries with full jitter: each wait is random between zero and a limit that doubles, so that clients that lost the server together do
 * not come back together. Unless told otherwise it is for connections: up to 1 s, doubling to 5 min.
 */
internal class Backoff(private val base: Long = 1_000, private val most: Long = 300_000) {
    private var n = 0

    fun next(): Long {
        val bound = if (n < DOUBLINGS) minOf(base shl n, most) else most
        n++
        return Random.nextLong(bound) + 1
    }

    fun reset() {
        n = 0
    }
}

private const val DOUBLINGS = 30
