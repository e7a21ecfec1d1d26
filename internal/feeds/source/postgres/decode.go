package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// LSN is a position in the log of a PostgreSQL server.
type LSN uint64

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// parseLSN reads a position as PostgreSQL writes it.
func parseLSN(s string) (LSN, error) {
	var high, low uint32
	if _, err := fmt.Sscanf(s, "%X/%X", &high, &low); err != nil {
		return 0, fmt.Errorf("%.32q is no position in a log", s)
	}
	return LSN(high)<<32 | LSN(low), nil
}

// MarshalText implements encoding.TextMarshaler.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalJSON also reads a number, as an earlier build has noted some positions.
func (l *LSN) UnmarshalJSON(b []byte) error {
	if n, err := strconv.ParseUint(string(b), 10, 64); err == nil {
		*l = LSN(n)
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	at, err := parseLSN(text)
	*l = at
	return err
}

// relation describes a table as it is from here on in the log.
type relation struct {
	id           uint32
	schema, name string
	columns      []column
}

type column struct {
	name string
	key  bool // part of the replica identity
	kind uint32
	// element is the type of an array's elements, where a user has made the type; 0: elements knows it, or it is no array
	element uint32
}

// value is one column of a row.
type value struct {
	kind byte // one of the following
	text []byte
}

// Kinds of values.
const (
	isNull      = 'n'
	isUnchanged = 'u' // a large value that the update left as it was, which is not sent again
	isText      = 't'
)

// change is a message of the log. Its texts are valid until the next one is read.
type change struct {
	kind byte // one of the following

	// of a begin and a commit
	lsn  LSN // of the commit record
	end  LSN // of a commit: behind it
	at   time.Time
	xid  uint32
	rel  *relation
	rels []uint32 // of a truncate

	table    uint32
	old, row []value // old: nil if it is not sent
	whole    bool    // old has all columns, not only the key

	transactional bool
	prefix        string
	content       []byte
}

// Kinds of changes that are used; others are skipped.
const (
	aBegin    = 'B'
	aCommit   = 'C'
	aRelation = 'R'
	anInsert  = 'I'
	anUpdate  = 'U'
	aDelete   = 'D'
	aTruncate = 'T'
	aMessage  = 'M'
)

var errTorn = errors.New("a message of the replication protocol is torn")

// reader takes fields from a message. After the first error all further ones are zero.
type reader struct {
	b    []byte
	torn bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.torn, r.b = true, nil
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string {
	end := bytes.IndexByte(r.b, 0)
	if end < 0 {
		r.torn, r.b = true, nil
		return ""
	}
	s := string(r.b[:end])
	r.b = r.b[end+1:]
	return s
}

// epoch is when PostgreSQL's clock begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *reader) time() time.Time {
	return epoch.Add(time.Duration(r.uint64()) * time.Microsecond) // a signed number
}

// row reads the values of a row into list.
func (r *reader) row(list []value) []value {
	n := int(r.uint16())
	list = list[:0]
	for range n {
		v := value{kind: r.byte()}
		switch v.kind {
		case isNull, isUnchanged:
		case isText:
			v.text = r.take(int(r.uint32()))
		default: // binary values were not asked for
			r.torn = true
		}
		if r.torn {
			return list
		}
		list = append(list, v)
	}
	return list
}

// decode reads a message of the plug-in pgoutput, version 1, into c.
func decode(b []byte, c *change) error {
	r := &reader{b: b}
	*c = change{kind: r.byte(), old: c.old[:0], row: c.row[:0]}
	old, row := c.old, c.row
	c.old = nil
	switch c.kind {
	case aBegin:
		c.lsn, c.at, c.xid = LSN(r.uint64()), r.time(), r.uint32()
	case aCommit:
		r.byte() // flags
		c.lsn, c.end, c.at = LSN(r.uint64()), LSN(r.uint64()), r.time()
	case aRelation:
		c.rel = r.relation()
	case anInsert:
		c.table = r.uint32()
		r.tag('N')
		c.row = r.row(row)
	case anUpdate:
		c.table = r.uint32()
		tag := r.byte()
		if tag == 'K' || tag == 'O' {
			c.whole, c.old = tag == 'O', r.row(old)
			tag = r.byte()
		}
		r.torn = r.torn || tag != 'N'
		c.row = r.row(row)
	case aDelete:
		c.table = r.uint32()
		tag := r.byte()
		r.torn = r.torn || tag != 'K' && tag != 'O'
		c.whole, c.old = tag == 'O', r.row(old)
	case aTruncate:
		n := int(r.uint32())
		r.byte() // options
		for range n {
			if c.rels = append(c.rels, r.uint32()); r.torn {
				break
			}
		}
	case aMessage:
		c.transactional = r.byte()&1 != 0
		c.lsn, c.prefix = LSN(r.uint64()), r.text()
		c.content = r.take(int(r.uint32()))
	}
	if r.torn {
		return fmt.Errorf("%w: %q", errTorn, c.kind)
	}
	return nil
}

func (r *reader) tag(want byte) { r.torn = r.torn || r.byte() != want }

func (r *reader) relation() *relation {
	rel := &relation{id: r.uint32(), schema: r.text(), name: r.text()}
	r.byte() // replica identity
	n := int(r.uint16())
	for range n {
		c := column{key: r.byte()&1 != 0, name: r.text(), kind: r.uint32()}
		r.uint32() // type modifier
		if r.torn {
			break
		}
		rel.columns = append(rel.columns, c)
	}
	return rel
}
