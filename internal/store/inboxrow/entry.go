// Package inboxrow is the stored form of inboxes, the same in every database, and what may happen to them. An inbox is a few rows: a head with
// its counts and its newest entries, and parts with older ones. So a publish changes one row besides its content, and counts are of the same
// row as what they count. Contents lie elsewhere, once for each publish.
package inboxrow

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/oklog/ulid/v2"
)

var errDamaged = errors.New("stored inbox is damaged")

// Flags of a stored entry.
const (
	flagSeen = 1 << iota
	flagRead
	flagArchived
	flagPinned
	flagKeyed // it has a collapse key
	flagULID  // the id is stored in 16 bytes
	flagUUID  // so is this one
	flagAnswered
)

// entry is one item of an inbox.
type entry struct {
	place    uint64
	content  int64 // position of its content
	id       ident
	category int    // index of the head's categories
	created  int64  // ms
	keep     uint64 // minutes
	key      uint64 // hash of the collapse key; 0: none
	pinned   bool

	seen, read, archived int64 // ms; 0: not yet

	answer   string // id of the action that was chosen; empty: none
	answered int64  // ms
}

const minute = 60_000

// until is the minute from which the entry is kept no more.
func (e *entry) until() int64 { return (e.created+minute-1)/minute + int64(e.keep) } // a year at most

func (e *entry) unseen() bool { return e.archived == 0 && e.seen == 0 }
func (e *entry) unread() bool { return e.archived == 0 && e.read == 0 }

// before is what an entry's stored form depends on: the entry before it.
type before struct {
	place   uint64
	content int64
	created int64
}

func (e *entry) before() before { return before{e.place, e.content, e.created} }

// appendEntries appends entries, each one relative to the one before, and returns the last of these.
func appendEntries(b []byte, list []entry) ([]byte, before) {
	var was before
	for i := range list {
		b = list[i].append(b, was)
		was = list[i].before()
	}
	return b, was
}

func (e *entry) append(b []byte, was before) []byte {
	flags := byte(0)
	for _, f := range [...]struct {
		is  bool
		bit byte
	}{{e.seen > 0, flagSeen}, {e.read > 0, flagRead}, {e.archived > 0, flagArchived}, {e.pinned, flagPinned}, {e.key != 0, flagKeyed}, {e.answer != "", flagAnswered}} {
		if f.is {
			flags |= f.bit
		}
	}
	b = append(b, flags|e.id.form)
	b = binary.AppendUvarint(b, e.place-was.place)
	b = binary.AppendVarint(b, e.content-was.content)
	b = binary.AppendUvarint(b, uint64(e.category)) // an index
	b = binary.AppendVarint(b, e.created-was.created)
	b = binary.AppendUvarint(b, e.keep)
	if e.id.form == 0 {
		b = append(binary.AppendUvarint(b, uint64(len(e.id.text))), e.id.text...)
	} else {
		b = append(b, e.id.packed[:]...)
	}
	if e.key != 0 {
		b = binary.BigEndian.AppendUint64(b, e.key)
	}
	for _, at := range [...]int64{e.seen, e.read, e.archived} {
		if at > 0 {
			b = binary.AppendVarint(b, at-e.created)
		}
	}
	if e.answer != "" {
		b = append(binary.AppendUvarint(b, uint64(len(e.answer))), e.answer...)
		b = binary.AppendVarint(b, e.answered-e.created)
	}
	return b
}

// ident is the id of a notification: 16 bytes if the server, or a maker of UUIDs, has made it, else its text. Equal ids are equal values.
type ident struct {
	form   byte // flagULID, flagUUID or 0
	packed [16]byte
	text   string
}

func identOf(id string) ident {
	switch len(id) {
	case ulid.EncodedSize:
		if u, err := ulid.ParseStrict(id); err == nil && u.String() == id {
			return ident{form: flagULID, packed: u}
		}
	case uuidSize:
		if b, ok := parseUUID(id); ok {
			return ident{form: flagUUID, packed: b}
		}
	}
	return ident{text: id}
}

func (id *ident) String() string {
	switch id.form {
	case flagULID:
		return ulid.ULID(id.packed).String()
	case flagUUID:
		return formatUUID(id.packed[:])
	}
	return id.text
}

const uuidSize = 36

// parseUUID reads a UUID of lower-case digits.
func parseUUID(s string) (b [16]byte, ok bool) {
	n := 0
	for i := 0; i < len(s); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return b, false
			}
			i++
			continue
		}
		high, low := strings.IndexByte(hexDigits, s[i]), strings.IndexByte(hexDigits, s[i+1])
		if high < 0 || low < 0 {
			return b, false
		}
		b[n] = byte(high<<4 | low)
		n++
		i += 2
	}
	return b, true
}

const hexDigits = "0123456789abcdef"

func formatUUID(b []byte) string {
	var s [uuidSize]byte
	n := 0
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			s[n] = '-'
			n++
		}
		s[n], s[n+1] = hexDigits[c>>4], hexDigits[c&0xf]
		n += 2
	}
	return string(s[:])
}

// reader reads a stored row.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// number reads a count or an index of at most most.
func (r *reader) number(most int) int {
	v := r.uvarint()
	if v > uint64(most) { // positive
		r.bad, r.b = true, nil
		return 0
	}
	return int(v)
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes(r.number(len(r.b)))) }

// entries reads n entries that appendEntries has written, for an inbox with so many categories.
func (r *reader) entries(n, categories int) []entry {
	list := make([]entry, 0, min(n, len(r.b)))
	var was before
	for range n {
		e := r.entry(was)
		if r.bad || e.place <= was.place || e.category >= categories {
			r.bad = true
			return nil
		}
		was = e.before()
		list = append(list, e)
	}
	return list
}

func (r *reader) entry(was before) (e entry) {
	flags := r.bytes(1)
	if r.bad {
		return e
	}
	f := flags[0]
	e.place = was.place + r.uvarint()
	e.content = was.content + r.varint()
	e.category = r.number(maxEntries)
	e.created = was.created + r.varint()
	e.keep = r.uvarint()
	e.pinned = f&flagPinned != 0
	if e.id.form = f & (flagULID | flagUUID); e.id.form == 0 {
		e.id.text = r.text()
	} else {
		copy(e.id.packed[:], r.bytes(len(e.id.packed)))
	}
	if f&flagKeyed != 0 {
		if b := r.bytes(8); !r.bad {
			e.key = binary.BigEndian.Uint64(b)
		}
	}
	for _, at := range [...]struct {
		bit byte
		to  *int64
	}{{flagSeen, &e.seen}, {flagRead, &e.read}, {flagArchived, &e.archived}} {
		if f&at.bit != 0 {
			*at.to = e.created + r.varint()
		}
	}
	if f&flagAnswered != 0 {
		e.answer = r.text()
		e.answered = e.created + r.varint()
		r.bad = r.bad || e.answer == ""
	}
	return e
}
