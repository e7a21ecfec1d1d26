package eventdb

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/event"
)

const (
	chunkBytes   = 64 << 10 // a full chunk: large enough to cost little each, small enough to read for a page of events
	chunkVersion = 1
)

// A chunk holds events of one app. Encoded: the version, the first id and the first time as varints, then of each
// event its type (its number below, or 0 and the text), how far its id and its time are from those of
// the one before, the notification and the recipient; texts with their length before them.
type chunk struct {
	app         string
	first, last uint64
	n           int
	at          int64 // of the last event, in milliseconds
	data        []byte

	once   sync.Once
	events []event.Event // decoded on first use, then shared by all followers
}

// types are the event types by their stored numbers: append, never renumber.
var types = [...]event.Type{
	1: event.Stored, event.Delivered, event.Acked, event.Replied, event.Expired, event.Replaced, event.Recalled,
	event.Failed, event.Online, event.Offline,
}

var typeCodes = func() map[event.Type]byte {
	m := make(map[event.Type]byte, len(types))
	for i, t := range types[1:] {
		m[t] = byte(i + 1) //nolint:gosec // ten of them
	}
	return m
}()

func (c *chunk) full() bool { return len(c.data) >= chunkBytes }

func (c *chunk) append(id uint64, e *event.Event) {
	at := e.At.UnixMilli()
	b := c.data
	if c.n == 0 {
		b = append(b, chunkVersion)
		b = binary.AppendUvarint(b, id)
		b = binary.AppendVarint(b, at)
		c.first, c.last, c.at = id, id, at
	}
	code := typeCodes[e.Type]
	b = append(b, code)
	if code == 0 {
		b = appendText(b, string(e.Type))
	}
	b = binary.AppendUvarint(b, id-c.last)
	b = binary.AppendVarint(b, at-c.at)
	b = appendText(b, e.Note)
	b = appendText(b, e.To)
	c.data, c.last, c.at = b, id, at
	c.n++
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoded returns the chunk's events. Only for chunks that grow no more.
func (c *chunk) decoded() []event.Event {
	c.once.Do(func() {
		// Cannot fail: it was encoded here.
		c.events, _ = decode(c.app, string(c.data), make([]event.Event, 0, c.n))
	})
	return c.events
}

// after returns the events of a sorted list that come after an id.
func after(evs []event.Event, since uint64) []event.Event {
	i, found := slices.BinarySearchFunc(evs, since, func(e event.Event, id uint64) int {
		switch {
		case e.ID < id:
			return -1
		case e.ID > id:
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return evs[i:]
}

var errDamaged = errors.New("event chunk is damaged")

// decode appends a chunk's events to evs. Their texts are parts of data.
func decode(app, data string, evs []event.Event) ([]event.Event, error) {
	d := decoder{data: data}
	if d.byte() != chunkVersion {
		return evs, errDamaged
	}
	id, at := d.uvarint(), d.varint()
	for len(d.data) > 0 && !d.bad {
		e := event.Event{App: app}
		switch code := int(d.byte()); {
		case code == 0:
			e.Type = event.Type(d.text())
		case code < len(types):
			e.Type = types[code]
		default:
			return evs, errDamaged
		}
		id += d.uvarint()
		at += d.varint()
		e.ID, e.At = id, time.UnixMilli(at).UTC()
		e.Note, e.To = d.text(), d.text()
		if !d.bad {
			evs = append(evs, e)
		}
	}
	if d.bad {
		return evs, errDamaged
	}
	return evs, nil
}

// decoder reads from the front of data. After an error it is bad and reads nothing more.
type decoder struct {
	data string
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.bad = true
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1) //nolint:gosec // zigzag
}

func (d *decoder) text() string {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.data)) {
		d.bad = true
		return ""
	}
	s := d.data[:n]
	d.data = d.data[n:]
	return s
}
