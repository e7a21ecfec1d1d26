// Package eventlog is shared by event logs on all databases: events encoded in chunks, a queue that never makes callers wait, and the
// newest chunks in memory for followers.
package eventlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	chunkBytes   = 64 << 10 // size of a full chunk: large enough to cost little each, small enough to read for one page of events
	briefBytes   = 32 << 10 // size of a full brief chunk, which has more than twice as many events in the same space
	chunkVersion = 1
	// briefVersion marks chunks that write a notification and its recipient once, and fields of an event by number: see brief.
	briefVersion = 3
)

// Chunk holds events of one app. Its encoding begins with the version, the first id and the first time as varints. Then each event has its
// type (its number below, or 0 and the text; if it has a channel, "/" and the channel follow the text, which versions without channels read
// as an unknown type), the distances of its id and its time from the previous event's, the notification and the recipient; lengths precede
// texts. A brief chunk has the same fields in the same order, but each event begins as appendKind writes it and ends as brief does.
type Chunk struct {
	App  string
	Last uint64 // id of its last event
	N    int
	Data []byte
	// Oldest is the time of its earliest repeatable event, in milliseconds; 0: it has none. Only chunks that were encoded here and are not
	// brief have it.
	Oldest int64

	at    int64  // time of the last event, in milliseconds
	names *brief // nil: each event contains its notification and recipient in full

	once   sync.Once
	events []event.Event // decoded on first use, then shared by all followers
}

// types lists the event types with numbers: never renumber. Other types are written as text. That costs some bytes, but a node of the
// previous version, which may run beside this one, can read them.
var types = [...]event.Type{
	1: event.Stored, event.Delivered, event.Acked, event.Replied, event.Expired, event.Replaced, event.Recalled,
	event.Failed, event.Online, event.Offline,
}

var typeCodes = func() map[event.Type]byte {
	m := make(map[event.Type]byte, len(types))
	for i, t := range types[1:] {
		m[t] = byte(i + 1) // ten of them
	}
	return m
}()

// channelMark separates a type from its channel, and these from further fields, the last of which is the reason. It occurs in no name of a
// type or a channel.
const channelMark = "/"

// markedFields is the number of these fields: the type, the channel, the step, whether the event is reconciled, and the reason.
const markedFields = 5

func (c *Chunk) full() bool {
	return len(c.Data) >= chunkBytes || c.names != nil && len(c.Data) >= briefBytes
}

func (c *Chunk) append(id uint64, e *event.Event) {
	at := e.At.UnixMilli()
	b := c.Data
	if c.N == 0 {
		version := byte(chunkVersion)
		if c.names != nil {
			version = briefVersion
		}
		b = append(b, version)
		b = binary.AppendUvarint(b, id)
		b = binary.AppendVarint(b, at)
		c.Last, c.at = id, at
	}
	if c.names != nil {
		b = appendKind(b, e)
	} else {
		b = appendMarked(b, e)
		if e.Repeatable() && (c.Oldest == 0 || at < c.Oldest) {
			c.Oldest = at
		}
	}
	b = binary.AppendUvarint(b, id-c.Last)
	b = binary.AppendVarint(b, at-c.at)
	if c.names != nil {
		b = c.names.append(b, named{e.Note, e.To})
	} else {
		b = appendText(appendText(b, e.Note), e.To)
	}
	c.Data, c.Last, c.at = b, id, at
	c.N++
}

// appendMarked writes an event's type and further fields, in the form for readers without brief chunks.
func appendMarked(b []byte, e *event.Event) []byte {
	switch {
	case furtherFields(e):
		text := []string{string(e.Type), e.Channel, stepText(e) + categoryText(e), reconciledText(e), e.Detail}
		return appendText(append(b, 0), strings.Join(text, channelMark))
	case e.Channel != "":
		return appendText(append(b, 0), string(e.Type)+channelMark+e.Channel)
	}
	code := typeCodes[e.Type]
	b = append(b, code)
	if code == 0 {
		b = appendText(b, string(e.Type))
	}
	return b
}

// The category follows the step, and is escaped: readers without categories find a text that is not a number there, and so no step. Events
// with a category have no step.
const (
	stepPlace    = 2
	categoryMark = ":"
)

func categoryText(e *event.Event) string {
	if e.Category == "" {
		return ""
	}
	return categoryMark + url.PathEscape(e.Category)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoded returns the chunk's events. The chunk must be complete.
func (c *Chunk) decoded() []event.Event {
	c.once.Do(func() {
		// Cannot fail: it was encoded here.
		c.events, _ = decode(c.App, string(c.Data), c.N)
		place(c.events, c.Last)
	})
	return c.events
}

// Only returns the wanted events of chunks, which must be complete.
func Only(chunks []*Chunk, wanted func(*event.Event) bool) (some []event.Event) {
	for _, c := range chunks {
		for _, e := range c.decoded() {
			if wanted(&e) {
				some = append(some, e)
			}
		}
	}
	return some
}

// Stored makes a chunk from its stored form.
func Stored(app, data string, last uint64) (*Chunk, error) {
	evs, err := Decode(app, data, last)
	if err != nil {
		return nil, err
	}
	c := &Chunk{App: app, Last: last, N: len(evs), Data: []byte(data), events: evs}
	c.once.Do(func() {})
	return c, nil
}

// After returns the events of a sorted list whose ids are above since.
func After(evs []event.Event, since uint64) []event.Event {
	i, found := slices.BinarySearchFunc(evs, since, func(e event.Event, id uint64) int { return cmp.Compare(e.ID, id) })
	if found {
		i++
	}
	return evs[i:]
}

// ErrDamaged says that a chunk was not encoded here, or is damaged.
var ErrDamaged = errors.New("event chunk is damaged")

// Decode returns a chunk's events. The last event gets the id last, whatever ids were encoded. The texts are parts of data, or of the text
// unpacked from it.
func Decode(app, data string, last uint64) ([]event.Event, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, err
	}
	evs, err := decode(app, data, 0)
	if err != nil || len(evs) == 0 {
		return nil, err
	}
	place(evs, last)
	return evs, nil
}

// place assigns ids to events, the last of which gets the id last.
func place(evs []event.Event, last uint64) {
	shift := last - evs[len(evs)-1].ID
	for i := range evs {
		evs[i].ID += shift
	}
}

func decode(app, data string, n int) (evs []event.Event, err error) {
	evs = make([]event.Event, 0, n)
	d := decoder{data: data}
	version := d.byte()
	if version != chunkVersion && version != briefVersion {
		return evs, ErrDamaged
	}
	var names heard
	id, at := d.uvarint(), d.varint()
	for len(d.data) > 0 && !d.bad {
		e := event.Event{App: app}
		if version == briefVersion {
			d.kind(&e)
		} else {
			d.marked(&e)
		}
		id += d.uvarint()
		at += d.varint()
		e.ID, e.At = id, time.UnixMilli(at).UTC()
		if version == briefVersion {
			of := names.next(&d)
			e.Note, e.To = of.note, of.to
		} else {
			e.Note, e.To = d.text(), d.text()
		}
		if !d.bad {
			evs = append(evs, e)
		}
	}
	if d.bad {
		return evs, ErrDamaged
	}
	return evs, nil
}

// marked reads what appendMarked writes.
func (d *decoder) marked(e *event.Event) {
	switch code := int(d.byte()); {
	case code == 0:
		text := strings.SplitN(d.text(), channelMark, markedFields)
		if len(text) > stepPlace {
			step, category, _ := strings.Cut(text[stepPlace], categoryMark)
			text[stepPlace] = step
			e.Category, _ = url.PathUnescape(category) // it was escaped here
		}
		e.Type = event.Type(text[0])
		for i, field := range []uint64{channelField, stepField, reconciledField, detailField} {
			if i+1 < len(text) {
				setField(e, field, text[i+1])
			}
		}
	case code < len(types):
		e.Type = types[code]
	default:
		d.bad = true
	}
}
