package dev.godwit.messaging.objects

import java.security.MessageDigest

/** Names an object within its app. */
internal data class ObjectKey(val group: String, val name: String) : Comparable<ObjectKey> {
    /** What one registration adds to a digest: the first 8 bytes, big-endian, of SHA-256 of group + "\n" + object. */
    val hash: Long
        get() {
            val sum = MessageDigest.getInstance("SHA-256").digest("$group\n$name".encodeToByteArray())
            return sum.take(Long.SIZE_BYTES).fold(0L) { hash, byte -> (hash shl Byte.SIZE_BITS) or (byte.toLong() and BYTE) }
        }

    override fun compareTo(other: ObjectKey): Int = if (group == other.group) name.compareTo(other.name) else group.compareTo(other.group)

    override fun toString(): String = "$group/$name"
}

/** The digest as frames have it. It is the sum modulo 2^64 of the hashes of all registrations. */
internal fun formatDigest(digest: Long): String = digest.toULong().toString(HEX).padStart(DIGITS, '0')

/** Reads a digest; null: it is none. */
internal fun parseDigest(text: String): Long? = if (text.length == DIGITS && text.none { it == '-' || it == '+' }) text.toULongOrNull(HEX)?.toLong() else null

private const val HEX = 16
private const val DIGITS = 16

private const val BYTE = 0xffL
