package dev.godwit.live

import kotlin.random.Random

/**
 * Spreads retries with full jitter: each wait is random between zero and a limit that doubles, so that clients that lost the server together do
 * not come back together.
 */
internal class Backoff(private val base: Long, private val most: Long) {
    private var n = 0

    fun next(): Long {
        val bound = if (n < DOUBLINGS) minOf(base shl n, most) else most
        n++
        return Random.nextLong(bound) + 1
    }

    fun reset() {
        n = 0
    }

    companion object {
        private const val DOUBLINGS = 30

        /** For connections: up to 1 s, doubling to 5 min. */
        fun ofConnections() = Backoff(1_000, 300_000)

        /** For requests over HTTP: up to 100 ms, doubling to 10 s. */
        fun ofRequests() = Backoff(100, 10_000)
    }
}
