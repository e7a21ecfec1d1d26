package eventlog

import (
	"encoding/binary"
	"strconv"

	"godwit.dev/godwit/internal/feeds/event"
)

// brief writes each pair of notification and recipient once in a chunk. Later events of the same pair refer to it by its number: the number
// of pairs written before it. A notification has three events (stored, delivered, acknowledged), mostly in the same order as its
// neighbours'. So the number is written as its zigzag distance from the number after the previous event's, which compresses to nearly
// nothing.
type brief struct {
	numbers map[named]int
	said    []named // by number
	next    int     // the number after the last event's
}

// named is the pair of an event: its notification and recipient.
type named struct{ note, to string }

// Prefixes of a pair's texts or number.
const (
	newPair = 0 // a new pair follows: a notification and a recipient
	newTo   = 1 // a recipient follows; the notification is that of the last new pair
	number  = 2 // this and larger values are 2 plus the distance
)

func newBrief() *brief { return &brief{numbers: make(map[named]int)} }

// append writes an event's notification and recipient.
func (n *brief) append(b []byte, of named) []byte {
	at, known := n.next, n.next < len(n.said) && n.said[n.next] == of
	if !known {
		at, known = n.numbers[of]
	}
	if known {
		far := int64(at - n.next)
		b = binary.AppendUvarint(b, number+uint64(far<<1^far>>63)) // zigzag
		n.next = at + 1
		return b
	}
	last := ""
	if len(n.said) > 0 {
		last = n.said[len(n.said)-1].note
	}
	if of.note == last {
		b = append(b, newTo)
	} else {
		b = appendText(append(b, newPair), of.note)
	}
	n.numbers[of] = len(n.said)
	n.said = append(n.said, of)
	n.next = len(n.said)
	return appendText(b, of.to)
}

// rest clears the pairs, for another chunk.
func (n *brief) rest() {
	clear(n.numbers)
	clear(n.said)
	n.said, n.next = n.said[:0], 0
}

// heard holds the pairs read so far in a chunk.
type heard struct {
	said  []named
	after int64 // the number after the last event's
}

// next reads an event's notification and recipient.
func (h *heard) next(d *decoder) named {
	switch far := d.uvarint(); far {
	case newPair:
		h.add(named{d.text(), d.text()})
	case newTo:
		note := ""
		if len(h.said) > 0 {
			note = h.said[len(h.said)-1].note
		}
		h.add(named{note, d.text()})
	default:
		far -= number
		h.after += int64(far>>1) ^ -int64(far&1) + 1 // zigzag
	}
	if h.after < 1 || h.after > int64(len(h.said)) {
		d.bad = true
		return named{}
	}
	return h.said[h.after-1]
}

func (h *heard) add(of named) {
	h.said = append(h.said, of)
	h.after = int64(len(h.said))
}

// more is a bit in an event's first byte, which otherwise is its type's number. It is set if fields follow the type: each a number and a
// text, and a 0 after the last. Readers skip unknown numbers, so that a version may add fields and the previous version still reads its
// events.
const more = 0x80

// Numbers of fields: never renumber. Only non-empty fields are written.
const (
	channelField    = 1
	stepField       = 2 // in decimal
	detailField     = 3
	reconciledField = 4 // "1"
	categoryField   = 5
)

// appendKind writes what happened.
func appendKind(b []byte, e *event.Event) []byte {
	code := typeCodes[e.Type]
	first := code
	if hasFields(e) {
		first |= more
	}
	b = append(b, first)
	if code == 0 {
		b = appendText(b, string(e.Type))
	}
	if first&more == 0 {
		return b
	}
	b = appendField(b, channelField, e.Channel)
	b = appendField(b, stepField, stepText(e))
	b = appendField(b, detailField, e.Detail)
	b = appendField(b, reconciledField, reconciledText(e))
	b = appendField(b, categoryField, e.Category)
	return append(b, 0)
}

// hasFields reports whether an event has more than its type, notification and recipient.
func hasFields(e *event.Event) bool { return e.Channel != "" || furtherFields(e) }

func furtherFields(e *event.Event) bool {
	return e.Step != 0 || e.Detail != "" || e.Reconciled || e.Category != ""
}

func stepText(e *event.Event) string {
	if e.Step == 0 {
		return ""
	}
	return strconv.Itoa(e.Step)
}

func reconciledText(e *event.Event) string {
	if e.Reconciled {
		return "1"
	}
	return ""
}

// setField is the inverse of appendField. A step that is not a number is ignored.
func setField(e *event.Event, field uint64, text string) {
	switch field {
	case channelField:
		e.Channel = text
	case stepField:
		e.Step, _ = strconv.Atoi(text)
	case detailField:
		e.Detail = text
	case reconciledField:
		e.Reconciled = text != ""
	case categoryField:
		e.Category = text
	}
}

func appendField(b []byte, field byte, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, field), text)
}

// kind reads what happened.
func (d *decoder) kind(e *event.Event) {
	first := d.byte()
	switch code := int(first &^ more); {
	case code == 0:
		e.Type = event.Type(d.text())
	case code < len(types):
		e.Type = types[code]
	default:
		d.bad = true
	}
	if first&more == 0 {
		return
	}
	for field := d.uvarint(); field != 0; field = d.uvarint() {
		setField(e, field, d.text())
	}
}
