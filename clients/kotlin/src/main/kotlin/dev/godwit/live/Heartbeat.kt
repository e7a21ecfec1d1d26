package dev.godwit.live

/**
 * Decides when a connection is probed and when it is dead. A phone may stop the program for long: what was silent meanwhile is probed first,
 * and only then given up.
 */
internal class Heartbeat(private val beatMillis: Long, private val everyBeat: Boolean, private val clock: Clock) {
    enum class Verdict { ALIVE, PING, SILENT, UNANSWERED }

    private var heardAt = clock.now()
    private var beatAt = heardAt + beatMillis // when a ping is sent whatever came; only if everyBeat
    private var pinged = false
    private var probeBy = Long.MAX_VALUE // the connection is dead unless something comes before
    private var asked = false // for a probe
    private var checkedAt = heardAt
    private var wallAt = clock.wall()

    /** Something came from the server. Only a pong answers a probe: of a connection that is dead in one direction, frames may still come. */
    fun heard(pong: Boolean) {
        heardAt = clock.now()
        pinged = false
        if (pong) probeBy = Long.MAX_VALUE // of one that was sent
    }

    /** Whether a probe has no answer yet. */
    val probing: Boolean get() = asked || probeBy != Long.MAX_VALUE

    /** Makes the next [check] ask whether the connection lives, with little patience. */
    fun probe() {
        if (!probing) asked = true
    }

    fun check(): Verdict {
        val now = clock.now()
        val silence = now - heardAt
        if (slept(now) || silence >= 2 * beatMillis && !pinged) probe()
        return when {
            now >= probeBy -> Verdict.UNANSWERED
            silence >= 2 * beatMillis && pinged -> Verdict.SILENT
            asked -> {
                asked = false
                probeBy = now + PROBE_PATIENCE
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
        if (asked) return clock.now()
        val silent = heardAt + if (pinged) 2 * beatMillis else beatMillis
        return minOf(probeBy, silent, if (everyBeat) beatAt else Long.MAX_VALUE)
    }

    companion object {
        /** How long a probe waits for any answer, in milliseconds: with a connect it stays below a second. */
        const val PROBE_PATIENCE = 700L
    }
}
