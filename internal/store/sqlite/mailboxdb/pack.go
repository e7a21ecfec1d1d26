package mailboxdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/notification"
)

// Constants of ends, in which a pack has for each copy a status, combined with endDelivered if the copy was delivered, and the time of its
// end in ms since it was created.
const (
	endBytes     = 6
	endOut       = 0xFF // the copy is no longer in the pack: it has a row of its own, or is deleted
	endDelivered = 0x80
	endTimes     = 1<<(8*(endBytes-1)) - 1 // the latest time, 34 years
)

// minPacked is the least number of copies that are packed: a single copy has a row, which one lookup finds instead of two.
const minPacked = 2

var errPack = errors.New("stored copies are damaged")

// packed is the stored form of a copy in a pack.
type packed struct {
	recipient uint32
	seq       uint64
}

// pack holds copies of one publish at consecutive positions. Reading another pack into it reuses its memory.
type pack struct {
	shared row // the values that all copies share; its position and its offset are those of the first
	copies []packed
	ends   []byte

	stored []byte // of copies
}

// appendCopies appends the stored form of copies.
func appendCopies(b []byte, list []packed) []byte {
	key, seq := int64(0), int64(0)
	for _, c := range list {
		b = binary.AppendVarint(b, int64(c.recipient)-key)
		b = binary.AppendVarint(b, int64(c.seq)-seq)
		key, seq = int64(c.recipient), int64(c.seq)
	}
	return b
}

// decodeCopies is the inverse of appendCopies. It appends to list.
func decodeCopies(list []packed, b []byte, n int) ([]packed, error) {
	if n < 0 || n > 1<<stretchBits || len(b) < 2*n {
		return nil, errPack
	}
	if n += len(list); cap(list) < n {
		list = append(make([]packed, 0, n), list...)
	}
	key, seq := int64(0), int64(0)
	for len(b) > 0 {
		more, i := binary.Varint(b)
		if i <= 0 {
			return nil, errPack
		}
		after, k := binary.Varint(b[i:])
		if k <= 0 {
			return nil, errPack
		}
		key, seq, b = key+more, seq+after, b[i+k:]
		if key <= 0 || key > math.MaxUint32 || seq < 0 || len(list) == n {
			return nil, errPack
		}
		list = append(list, packed{uint32(key), uint64(seq)})
	}
	if len(list) < n {
		return nil, errPack
	}
	return list, nil
}

// packColumns are the columns of a pack, in the order in which scan reads them.
const packColumns = "first, body_offset, ack, priority, created_at, expires_at, hash, id, collapse_key, copies, ends"

// selectPack finds the pack that may hold a position.
const selectPack = "SELECT " + packColumns + " FROM pack WHERE first <= ?1 ORDER BY first DESC LIMIT 1"

// scan reads a row of packs.
func (p *pack) scan(st *sqlite.Stmt) (err error) {
	p.stored, p.ends = blobInto(p.stored, st, 9), blobInto(p.ends, st, 10)
	p.shared = row{}
	r := &p.shared
	r.pos, r.offset = st.ColumnInt64(0), int16(st.ColumnInt32(1))
	r.setAck(st.ColumnInt32(2))
	r.priority = notification.Priority(st.ColumnInt32(3))
	r.created, r.expires, r.hash = st.ColumnInt64(4), st.ColumnInt64(5), st.ColumnInt64(6)
	r.id, r.collapse = st.ColumnText(7), st.ColumnText(8)
	r.open, r.apart, r.status, r.delivered, r.settled = true, true, notification.Stored, -r.created, -r.created
	err = errPack
	if len(p.ends)%endBytes == 0 {
		p.copies, err = decodeCopies(p.copies[:0], p.stored, len(p.ends)/endBytes)
	}
	if err != nil {
		err = fmt.Errorf("pack at %d: %w", r.pos, err)
		*p = pack{}
	}
	return err
}

func blobInto(b []byte, st *sqlite.Stmt, col int) []byte {
	b = slices.Grow(b[:0], st.ColumnLen(col))[:st.ColumnLen(col)]
	st.ColumnBytes(col, b)
	return b
}

// last is the position of the last copy.
func (p *pack) last() int64 { return p.shared.pos + int64(len(p.copies)) - 1 }

func (p *pack) holds(pos int64) bool { return pos >= p.shared.pos && pos <= p.last() }

// find reads the pack that holds a position, unless p is that pack already; ok is false if there is none.
func (p *pack) find(stmt *sqlite.Stmt, pos int64) (ok bool, err error) {
	if len(p.copies) > 0 && p.holds(pos) {
		return true, nil
	}
	stmt.BindInt64(1, pos)
	err = each(stmt, func(st *sqlite.Stmt) error {
		if ok = pos-st.ColumnInt64(0) < int64(st.ColumnLen(10)/endBytes); !ok {
			return nil
		}
		return p.scan(st)
	})
	return ok && err == nil, err
}

// forget makes the next find read the pack again.
func (p *pack) forget() { p.copies = p.copies[:0] }

// end returns a copy's entry in ends.
func (p *pack) end(pos int64) []byte {
	at := int(pos-p.shared.pos) * endBytes
	return p.ends[at : at+endBytes]
}

// erase removes a recipient from the copies that have left the pack: they get the recipient of a neighbouring copy instead. It reports
// whether it changed any.
func (p *pack) erase(key uint32) (found bool) {
	other := slices.IndexFunc(p.copies, func(c packed) bool { return c.recipient != key })
	if other < 0 {
		return false // there is nobody beside it
	}
	beside := p.copies[other]
	for i := range p.copies {
		switch {
		case p.copies[i].recipient != key:
			beside = p.copies[i]
		case p.ends[i*endBytes] == endOut:
			p.copies[i], found = beside, true
		}
	}
	return found
}

// left reports whether all copies have left the pack.
func (p *pack) left() bool {
	for at := 0; at < len(p.ends); at += endBytes {
		if p.ends[at] != endOut {
			return false
		}
	}
	return true
}

func (p *pack) isOut(pos int64) bool { return p.end(pos)[0] == endOut }

// row returns the copy at a position of the pack; ok is false if it has left the pack.
func (p *pack) row(pos int64) (r row, ok bool) {
	place := pos - p.shared.pos
	r = p.shared
	r.pos, r.recipient, r.seq = pos, p.copies[place].recipient, p.copies[place].seq
	if r.offset != soleCopy {
		r.offset += int16(place)
	}
	end := p.end(pos)
	switch {
	case end[0] == endOut:
		return row{}, false
	case end[0] != 0:
		r.open, r.apart = false, false
		r.status = notification.Status(end[0] &^ endDelivered)
		r.settled = r.created + int64(binary.BigEndian.Uint64(append([]byte{0, 0, 0}, end[1:]...)))
		if end[0]&endDelivered != 0 {
			r.delivered = r.settled
		}
	}
	return r, true
}

// setEnd stores a copy's outcome in the pack's reserved space. It keeps whether the copy was delivered, but not when.
func (p *pack) setEnd(pos int64, o *outcome) {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(min(max(o.at-p.shared.created, 0), endTimes)))
	end := p.end(pos)
	copy(end[1:], at[8-endBytes+1:])
	if end[0] = byte(o.as); o.delivered > 0 {
		end[0] |= endDelivered
	}
}

// eachPack reads the packs that may hold positions in a range, in order.
func eachPack(st *sqlite.Stmt, from, to int64, yield func(*pack) error) error {
	st.BindInt64(1, from-1<<stretchBits)
	st.BindInt64(2, to)
	return each(st, func(st *sqlite.Stmt) error {
		p := new(pack)
		if err := p.scan(st); err != nil || p.last() < from {
			return err
		}
		return yield(p)
	})
}

// selectPacks is the statement of eachPack.
const selectPacks = "SELECT " + packColumns + " FROM pack WHERE first > ?1 AND first <= ?2 ORDER BY first"
