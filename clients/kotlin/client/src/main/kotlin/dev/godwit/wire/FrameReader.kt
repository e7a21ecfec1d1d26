package dev.godwit.wire

import kotlin.time.Instant

/** Reads the members of a frame: of one in JSON by name, of one in protobuf by number. What is absent is empty, 0 or null. */
internal interface FrameReader {
    fun string(number: Int, name: String): String

    fun strings(number: Int, name: String): List<String>

    fun boolean(number: Int, name: String): Boolean

    /** A whole number; one that is larger than any Int is Int.MAX_VALUE. */
    fun int(number: Int, name: String): Int

    fun long(number: Int, name: String): Long

    fun millis(number: Int, name: String): Long

    fun version(number: Int, name: String): Long

    /** A time, within the range of RFC 3339. */
    fun time(number: Int, name: String): Instant?

    /** In protobuf the number of one [of] these, in JSON its name. */
    fun choice(number: Int, name: String, of: List<String>): String

    fun message(number: Int, name: String): FrameReader?

    fun messages(number: Int, name: String): List<FrameReader>

    /** Data and its type, whose number is [type]. [checked]: data whose type says JSON must be JSON, which it always must in a frame in JSON. */
    fun content(number: Int, name: String, type: Int, checked: Boolean): Content

    /** Headers, each with its values. In protobuf those with one value and those with several have numbers of their own. */
    fun headers(name: String, vararg numbers: Int): Map<String, List<String>>
}
