package mailboxdb

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/notify/notification"
)

// The flags of a copy: two bits of priority (0 is high, as backlogs are ordered), two of ack mode, whether it asks for
// a reply, and whether it has steps beyond live. They are stored: never renumber.
const (
	priorityBits = 3
	ackShift     = 2
	ackBits      = 3 << ackShift
	ackAllFlag   = int16(notification.AckAll) << ackShift
	asksFlag     = 16
	stepsFlag    = 32
)

type flags int16

func flagsOf(n *notification.Notification) flags {
	f := flags(n.Priority-notification.High) | flags(n.Ack)<<ackShift
	if !n.ReplyBy.IsZero() {
		f |= asksFlag
	}
	if n.Steps != nil {
		f |= stepsFlag
	}
	return f
}

func (f flags) priority() notification.Priority {
	return notification.Priority(f&priorityBits) + notification.High
}
func (f flags) ack() notification.AckMode { return notification.AckMode(f & ackBits >> ackShift) }
func (f flags) asks() bool                { return f&asksFlag != 0 }
func (f flags) escalates() bool           { return f&stepsFlag != 0 }

// shards is the number of parts into which recipients are divided, for sweeps and upkeep that work in parts. Each
// recipient's row stores its part: never change it.
const shards = 16

// A random key is inserted into any page of an index, but a key that begins with the time into its last page. That saves the writing of
// whole pages to the log after each checkpoint. So the key of an id that begins with its time (a ULID, as this server makes them, or a UUID
// of version 7) begins with the time too; keyTimeShift bits remain for a hash, which distinguishes ids of one millisecond.
const (
	keyTimeShift = 20
	keyHashBits  = 1<<keyTimeShift - 1
)

// idKey returns the key of an id in its index. Keys are stored, so this function must never change; two ids may have the same key.
func idKey(app, id string) int64 {
	h := nameHash(app, id)
	if ms, ok := idTime(id); ok {
		return int64(ms<<keyTimeShift | h&keyHashBits) // any number will do
	}
	return int64(h) // any number will do
}

// idTime returns the time when an id was made, in milliseconds of Unix time, if the id contains it.
func idTime(id string) (ms uint64, ok bool) {
	switch len(id) {
	case ulid.EncodedSize:
		u, err := ulid.ParseStrict(id)
		if err != nil || u.String() != id { // which is upper case
			return 0, false
		}
		ms = u.Time()
	case 36:
		if id[8] != '-' || id[13] != '-' || id[14] != '7' {
			return 0, false
		}
		var b [6]byte
		if _, err := hex.Decode(b[:], []byte(id[:8]+id[9:13])); err != nil {
			return 0, false
		}
		ms = uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
	}
	return ms, ms != 0 && ms < 1<<(63-keyTimeShift)
}

// nameHash is cryptographic: names come from outside, and nobody should be able to find many that collide.
func nameHash(app, name string) uint64 {
	var buf [2*notification.MaxNameBytes + 1]byte
	b := append(buf[:0], app...)
	b = append(b, '\n')
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

func shardOf(app, name string) int { return int(nameHash(app, name) % shards) }

// collapseHash never returns 0, which means that there is no key.
func collapseHash(key string) int32 {
	if key == "" {
		return 0
	}
	return max(1, int32(nameHash("", key)>>33)) // 31 bits
}
