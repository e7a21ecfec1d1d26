package admin

import (
	"errors"

	"godwit.dev/godwit/internal/campaigns/tables"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/words"
)

// tableTexts are what package tables says of a file, its columns and its lines, and what registrations warn of.
var tableTexts = []string{
	key("read the names of the columns: %s"),
	key("column %s: %s"),
	key("line %s: %s"),

	key("attribute %s, text, since %s is among them"),
	key("attribute %s, text"),
	key("attribute %s, numbers"),
	key("attribute %s, true and false"),
	key("attribute %s, as exported"),
	key("address: %s"),
	key("says who is left out"),
	key("not stored"),

	key("the table is empty: its first line must name the columns"),
	key("the first line names no columns"),
	key("%s and %s both say %s"),
	key("%s is neither a known column nor a name for an attribute: write letters, digits, _ . - after a letter"),
	key("%s separates no cells: it is comma, semicolon, tab or pipe"),
	key("it is UTF-32: save it as UTF-8"),
	key("it is not text: it has zero bytes"),
	key("%s is no encoding that is known here: name it like utf-8, utf-16le, windows-1252, iso-8859-1 or koi8-r"),

	key("has %s cells; the first line names %s columns"),
	key("has %s in column %s, which has no name"),
	key("has more than %s bytes"),
	key("has a zero byte, which is no text"),
	key("is not UTF-8: name the file's encoding, like windows-1252"),
	key("has characters that are none in the file's encoding"),
	key(`has a quote " that is not closed`),
	key(`has text behind a cell that a quote " ends: write "" for a quote within one`),
	key("begins a JSON list: NDJSON has one object a line, without a list around them"),
	key("has more than one JSON value"),
	key("tags is not a JSON list of texts"),
	key("%s is not JSON"),
	key("status: %s is none of active, disabled"),
	key("%s: %s is neither true nor false"),
	key("%s: %s cannot be read as numbers, as the heading says"),
	key("%s: %s cannot be read as true and false, as the heading says"),
	key("%s: %s cannot be read as numbers like those before, and is kept as text"),
	key("%s: %s cannot be read as true and false like those before, and is kept as text"),
	key("locale: %s is not a language like fr or nb-NO and is left out"),
	key("timezone: %s is not a time zone like Europe/Oslo and is left out"),
	key("the address or id belongs to another endpoint"),

	key("cannot be read as CSV: %s"),
	key("cannot be read as JSON: %s"),
}

var knownInTables = sayingsOf(tableTexts)

// tableText says a text of package tables in a language; an unknown one stays as it is.
func tableText(l *words.Language, text string) string {
	said, _ := knownInTables.in(l, text)
	return said
}

// lineProblem says why a file or one of its lines is refused.
func lineProblem(l *words.Language, err error) string {
	if field, ok := errors.AsType[*notification.FieldError](err); ok && l != words.English {
		return wholeProblem(l, field)
	}
	return tableText(l, err.Error())
}

// markedUTF8 is the name of an encoding that consists of words.
var markedUTF8 = key("UTF-8 with a byte-order mark")

// howRead says how a file is read.
func howRead(l *words.Language, src *tables.Reader) string {
	encoding := src.Encoding()
	if encoding == markedUTF8 {
		encoding = l.T(markedUTF8)
	}
	if src.Separator() == "" {
		return encoding
	}
	return l.T("%[1]s, cells separated by %[2]s", encoding, l.T(src.Separator()))
}
