package dev.godwit.wire

/**
 * Reads JSON text as RFC 8259 has it. kotlinx.serialization accepts more (`NaN`, `01`), and what is handed to a program must be
 * what was published. It nests in a list of its own, so that deep input takes no stack.
 */
internal class JsonScanner(private val text: String) {
    private val end = text.length
    private var at = 0

    fun skipSpace() {
        while (at < end && text[at] in SPACE) at++
    }

    /** Takes a character if it is the next one after white space. */
    fun take(c: Char): Boolean {
        skipSpace()
        if (at >= end || text[at] != c) return false
        at++
        return true
    }

    fun next(c: Char): Boolean {
        skipSpace()
        return at < end && text[at] == c
    }

    fun atEnd(): Boolean {
        skipSpace()
        return at >= end
    }

    /** Takes one value. False: there is none, and the position is that of the error. */
    fun value(): Boolean {
        val open = ArrayList<Char>() // brackets that are to be closed
        while (true) {
            skipSpace()
            val bracket = if (at < end) text[at] else return false
            if (bracket == '{' || bracket == '[') {
                at++
                val close = if (bracket == '{') '}' else ']'
                if (!take(close)) {
                    open += close
                    if (close == '}' && !name()) return false
                    continue
                }
            } else if (!scalar(bracket)) {
                return false
            }
            if (!another(open)) return open.isEmpty()
        }
    }

    /** After a value: takes the brackets that close here, and the comma before the next value. False: none follows, or not as it must. */
    private fun another(open: ArrayList<Char>): Boolean {
        while (true) {
            val close = open.lastOrNull() ?: return false
            if (!take(close)) return take(',') && (close != '}' || name())
            open.removeAt(open.lastIndex)
        }
    }

    private fun name(): Boolean {
        skipSpace()
        return string() != null && take(':')
    }

    private fun scalar(first: Char): Boolean = when (first) {
        '"' -> string() != null
        't' -> word("true")
        'f' -> word("false")
        'n' -> word("null")
        else -> number()
    }

    private fun word(word: String): Boolean {
        if (at + word.length > end || !text.startsWith(word, at)) return false
        at += word.length
        return true
    }

    private fun number(): Boolean {
        if (at < end && text[at] == '-') at++
        if (at < end && text[at] == '0') {
            at++
        } else if (!digits()) {
            return false
        }
        if (at < end && text[at] == '.') {
            at++
            if (!digits()) return false
        }
        if (at < end && (text[at] == 'e' || text[at] == 'E')) {
            at++
            if (at < end && (text[at] == '+' || text[at] == '-')) at++
            if (!digits()) return false
        }
        return true
    }

    private fun digits(): Boolean {
        val from = at
        while (at < end && text[at] in '0'..'9') at++
        return at > from
    }

    /** Takes a string and returns what it says; null: it is none. Halves of surrogate pairs become U+FFFD. */
    fun string(): String? {
        if (at >= end || text[at] != '"') return null
        at++
        val from = at
        while (at < end && text[at] != '"' && text[at] != '\\') if (text[at++] < ' ') return null
        if (at < end && text[at] == '"') return text.substring(from, at++).wellFormed()
        val said = StringBuilder(text.substring(from, at))
        while (at < end) {
            when (val c = text[at++]) {
                '"' -> return said.toString().wellFormed()
                '\\' -> said.append(escaped() ?: return null)
                else -> if (c < ' ') return null else said.append(c)
            }
        }
        return null
    }

    private fun escaped(): Char? {
        if (at >= end) return null
        return when (val c = text[at++]) {
            '"', '\\', '/' -> c
            'b' -> '\b'
            'f' -> '\u000c'
            'n' -> '\n'
            'r' -> '\r'
            't' -> '\t'
            'u' -> unicode()
            else -> null
        }
    }

    private fun unicode(): Char? {
        if (at + UNICODE_DIGITS > end) return null
        var code = 0
        repeat(UNICODE_DIGITS) {
            val digit = Character.digit(text[at++], HEX)
            if (digit < 0 || text[at - 1] > 'f') return null
            code = code * HEX + digit
        }
        return code.toChar()
    }

    /** Takes what stands where a value belongs, whether it is JSON or not, by its brackets and strings; null: the text ends within it. */
    fun anything(): String? {
        skipSpace()
        val from = at
        var depth = 0
        while (at < end) {
            when (text[at]) {
                '"' -> if (anyString()) continue else return null
                '{', '[' -> depth++
                '}', ']', ',' -> when {
                    depth == 0 && at == from -> return null
                    depth == 0 -> return text.substring(from, at).trimEnd()
                    text[at] != ',' -> depth--
                }
            }
            at++
        }
        return null
    }

    private fun anyString(): Boolean {
        at++
        while (at < end) {
            when (text[at++]) {
                '"' -> return true
                '\\' -> at++
            }
        }
        return false
    }
}

/** This text, with U+FFFD for each half of a surrogate pair that stands alone: UTF-8 has no such. */
internal fun String.wellFormed(): String {
    if (none { it.isSurrogate() }) return this
    val text = StringBuilder(this)
    var i = 0
    while (i < text.length) {
        when {
            text[i].isHighSurrogate() && i + 1 < text.length && text[i + 1].isLowSurrogate() -> i++
            text[i].isSurrogate() -> text.setCharAt(i, '\uFFFD')
        }
        i++
    }
    return text.toString()
}

/** Whether a whole text is one JSON value. */
internal fun isJson(text: String): Boolean {
    val scanner = JsonScanner(text)
    return scanner.value() && scanner.atEnd()
}

private const val SPACE = " \t\r\n"
private const val UNICODE_DIGITS = 4
private const val HEX = 16
