package dev.godwit.live

/**
 * Decides when a connection is probed and when it is dead. A phone may stop the program for long: what was silent meanwhile is probed first,
 * and only then given up.
 */
internal class Heartbeat(private val beatMillis: Long, private val everyBeat: Boolean, roundTripMillis: Long, private val clock: Clock) {
    enum class Verdict { ALIVE, PING, SILENT, UNANSWERED }

    private var heardAt = clock.now()
    private var beatAt = heardAt + beatMillis // when a ping is sent whatever came; only if everyBeat
    private var pinged = false
    private var probeBy = Long.MAX_VALUE // the connection is dead unless something comes before
    private var asked = 0L // the patience of a probe that is to be sent; 0: none is
    private val patience = (ROUND_TRIPS * roundTripMillis).coerceIn(LEAST_PATIENCE, MOST_PATIENCE)
    private var checkedAt = heardAt
    private var wallAt = clock.wall()

    /** Something came from the server. Only a pong answers a probe: of a connection that is dead in one direction, frames may still come. */
    fun heard(pong: Boolean) {
        heardAt = clock.now()
        pinged = false
        if (pong) probeBy = Long.MAX_VALUE // of one that was sent
    }

    /** Whether a probe has no answer yet. */
    val probing: Boolean get() = asked != 0L || probeBy != Long.MAX_VALUE

    /** Makes the next [check] ask whether the connection lives, with the patience of two round trips. */
    fun probe() = probe(patience)

    private fun probe(patience: Long) {
        if (!probing) asked = patience
    }

    fun check(): Verdict {
        val now = clock.now()
        val silence = now - heardAt
        if (slept(now) || silence >= 2 * beatMillis && !pinged) probe(maxOf(patience, PROBE_PATIENCE))
        return when {
            now >= probeBy -> Verdict.UNANSWERED
            silence >= 2 * beatMillis && pinged -> Verdict.SILENT
            asked != 0L -> {
                probeBy = now + asked
                asked = 0
                ping(now)
            }
            silence >= beatMillis && !pinged || everyBeat && now >= beatAt -> ping(now)
            else -> Verdict.ALIVE
        }
    }

    private fun ping(now: Long): Verdict {
        pinged = true
        beatAt = now + beatMillis
        return Verdict.PING
    }

    /** Whether the device slept since the last check: its time of day went on without the program's. */
    private fun slept(now: Long): Boolean {
        val wall = clock.wall()
        val slept = wall - wallAt - (now - checkedAt) >= beatMillis
        checkedAt = now
        wallAt = wall
        return slept
    }

    /** When to [check] next. */
    fun nextCheckAt(): Long {
        if (asked != 0L) return clock.now()
        val silent = heardAt + if (pinged) 2 * beatMillis else beatMillis
        return minOf(probeBy, silent, if (everyBeat) beatAt else Long.MAX_VALUE)
    }
}

/** How long a probe waits for its answer after a sleep, in milliseconds: a radio that wakes up takes most of it. */
internal const val PROBE_PATIENCE = 700L

// The same after a change of the network. With a connect it stays below a second, but for networks whose round trips are long.
internal const val LEAST_PATIENCE = 300L
private const val MOST_PATIENCE = 2_000L

/** A new network may be slower than the one before. */
private const val ROUND_TRIPS = 2
