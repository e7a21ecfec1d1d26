package dev.godwit.wire

private const val LONGEST_NAME = 128
private const val LONGEST_TOPIC = 255 // bytes
private const val MOST_TOKENS = 16

/** The largest answer to a request. */
internal const val MOST_TO_REQUEST: Int = 1 shl 20

/** The largest answer to a notification. */
internal const val MOST_TO_NOTIFICATION: Int = 64 shl 10

private fun isNameLetter(c: Char) = c in 'a'..'z' || c in 'A'..'Z' || c in '0'..'9' || c in "._:@+-"

/** Whether a text is a name of an app, recipient, notification, group, object, device or queue. */
internal fun isName(name: String): Boolean = name.length in 1..LONGEST_NAME && name != "." && name != ".." && name.all(::isNameLetter)

/** Refuses what is no name here, where the error can say why. */
internal fun requireName(what: String, name: String) {
    require(isName(name)) {
        "$what \"${name.take(LONGEST_NAME)}\" is not a name: allowed are 1 to $LONGEST_NAME of A-Z a-z 0-9 . _ : @ + -, and neither . nor .. alone"
    }
}

/** Refuses what names no object. */
internal fun requireObject(what: String, group: String, name: String) {
    requireName("$what: group", group)
    requireName("$what: object", name)
}

/** Refuses what is neither a topic nor a pattern of topics. */
internal fun requirePattern(pattern: String) {
    val tokens = pattern.split('.')
    require(pattern.encodeToByteArray().size <= LONGEST_TOPIC && tokens.size <= MOST_TOKENS) {
        "topic ${pattern.take(LONGEST_TOPIC)} has more than $LONGEST_TOPIC bytes or $MOST_TOKENS tokens"
    }
    for ((i, token) in tokens.withIndex()) {
        val whole = token == "*" || token == ">" && i == tokens.lastIndex
        require(whole || token.isNotEmpty() && token.all { it == '%' || isNameLetter(it) }) {
            "topic \"$pattern\" has the token \"$token\": allowed are A-Z a-z 0-9 _ : @ + -, and wildcards stand alone"
        }
    }
}
