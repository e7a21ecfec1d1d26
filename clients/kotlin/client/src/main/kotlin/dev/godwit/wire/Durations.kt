package dev.godwit.wire

private val PART = Regex("([0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h|d)")
private val MILLIS_OF = mapOf(
    "ns" to 1e-6,
    "us" to 1e-3,
    "µs" to 1e-3,
    "ms" to 1.0,
    "s" to 1e3,
    "m" to 60e3,
    "h" to 3600e3,
    "d" to 86400e3,
)

/** Reads a duration as the protocol has it: numbers with units (`1h30m`), or whole seconds; null: it is none. */
internal fun durationMillis(text: String): Long? {
    if (text.isNotEmpty() && text.all { it in '0'..'9' }) {
        return text.toLongOrNull()?.takeIf { it <= Long.MAX_VALUE / MILLIS }?.times(MILLIS)
    }
    var at = 0
    var sum = 0.0
    while (at < text.length) {
        val part = PART.matchAt(text, at) ?: return null
        sum += part.groupValues[1].toDouble() * MILLIS_OF.getValue(part.groupValues[2])
        at = part.range.last + 1
    }
    return if (at == 0) null else sum.toLong()
}

private const val MILLIS = 1000L
