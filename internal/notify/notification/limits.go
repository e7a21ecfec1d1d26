package notification

import "bytes"

// Limits of JSON in a publish, within which all parsers of receivers can read it. They are part of the public contract.
const (
	MaxJSONDepth  = 64   // nesting of objects and arrays; common parsers fail at 100, or exhaust the stack
	MaxJSONDigits = 1000 // digits of one number; Python refuses to read integers of more than 4,300
)

// CheckJSON refuses valid JSON that exceeds these limits. It allows numbers beyond the range of a double: they do no harm, and their value
// depends on the receiver's language.
func CheckJSON(field string, b []byte) error {
	if !suspect(b) {
		return nil
	}
	depth, digits, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++ // whatever is escaped
			}
		case c >= '0' && c <= '9':
			if digits++; digits > MaxJSONDigits {
				return BadField(field, "has a number of more than %d digits", MaxJSONDigits)
			}
		case partOfNumber(c):
		default:
			digits = 0
			switch c {
			case '{', '[':
				if depth++; depth > MaxJSONDepth {
					return BadField(field, "is nested more than %d levels deep", MaxJSONDepth)
				}
			case '}', ']':
				depth--
			}
		}
	}
	return nil
}

// suspect reports whether b might break a limit, which is very rare. It reads one byte in a thousand, and counts two kinds of bytes, which
// processors do for many bytes at a time.
func suspect(b []byte) bool {
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) > MaxJSONDepth {
		return true
	}
	for i := MaxJSONDigits; i < len(b); i += MaxJSONDigits { // a longer number contains at least one of these bytes
		if longNumber(b, i) {
			return true
		}
	}
	return false
}

// longNumber reports whether the text around i is too long for a number, if it is not in a string.
func longNumber(b []byte, i int) bool {
	from, to := i, i
	for from > 0 && to-from <= MaxJSONDigits && inNumber(b[from-1]) {
		from--
	}
	for to < len(b) && to-from <= MaxJSONDigits && inNumber(b[to]) {
		to++
	}
	return to-from > MaxJSONDigits
}

func inNumber(c byte) bool { return c >= '0' && c <= '9' || partOfNumber(c) }

// partOfNumber reports whether c is one of the other characters in numbers.
func partOfNumber(c byte) bool { return c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' }
