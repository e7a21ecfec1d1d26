// Package attempts is the form in which stores of mailboxes keep the attempts to deliver a copy to connections. (docs/adr/0030)
//
// Nearly all copies are written once, to the connection that acknowledges them. For those a Via suffices, in two bytes and some bits beside
// the outcome. For the others all attempts are written one after the other, some ten bytes each.
package attempts

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/mailbox"
)

const (
	// Most limits the bytes of attempts stored for a copy before it ends: a hundred attempts or more.
	Most = 2000
	// mostReason limits the stored bytes of a client's reason for refusing a copy; the last reason is stored whole, elsewhere.
	mostReason = 200
)

// Via is the connection of a copy's only write, over which it was also acknowledged. The zero value: unknown.
type Via = mailbox.Over

// device finds the device's name among the recipient's devices by its hash. Two names may have the same hash.
func device(v Via, known []string) string {
	if v.Device == 0 {
		return ""
	}
	var names []string
	for _, name := range known {
		if mailbox.HashDevice(name) == v.Device && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "a device that is not known any more"
	}
	return strings.Join(names, " or ")
}

// Tried is the form of an attempt in memory: 24 bytes.
type Tried struct {
	who string // the device; a gateway without a number precedes it by name, followed by a tab; in a refusal a line end and the reason follow it; neither separator occurs in names
	at  uint64 // milliseconds << 8 | gateway << 4 | what
}

// Of converts a mark.
func Of(m *mailbox.Mark) Tried {
	who := m.Device
	if m.What == mailbox.Nacked && m.Reason != nil {
		who += "\n" + cut(*m.Reason)
	}
	gateway := m.Over.Gateway
	if m.Over.Named() {
		who, gateway = mailbox.Gateway(gateway)+"\t"+who, mailbox.MaxGateway
	}
	return Tried{who: who, at: uint64(m.DeliveredAt.UnixMilli())<<8 | uint64(gateway)<<4 | uint64(m.What)} // after 1970
}

// cut shortens a reason.
func cut(reason string) string {
	if len(reason) <= mostReason {
		return reason
	}
	n := mostReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n] + "…"
}

// Acked returns the attempt that records a device's acknowledgement. Sessions without a device have their own names, which no device has.
func Acked(q *mailbox.Settle) Tried {
	device := q.Device
	if strings.HasPrefix(device, "~") {
		device = ""
	}
	return Of(&mailbox.Mark{Device: device, Over: q.Over, DeliveredAt: q.At, What: mailbox.Acked})
}

// Known reports whether t is an attempt; the zero value is not.
func (t Tried) Known() bool { return t.at != 0 }

func (t Tried) what() mailbox.What { return mailbox.What(t.at & 15) } // four bits

// IsTo reports whether t is a write to this connection; only the gateway distinguishes connections without a device.
func (t Tried) IsTo(v Via) bool {
	return t.what() == mailbox.Written && uint8(t.at>>4&15) == v.Gateway && mailbox.HashDevice(t.who) == v.Device // four bits
}

// Append writes it behind others.
func (t Tried) Append(b []byte) []byte {
	b = append(b, byte(t.at))
	b = binary.AppendUvarint(b, t.at>>8)
	return append(binary.AppendUvarint(b, uint64(len(t.who))), t.who...)
}

var errDamaged = errors.New("what was tried is stored damaged")

// Decode reads the output of Append, in the order of time and without duplicates: a repeated commit writes the same attempts again.
func Decode(b []byte) (list []mailbox.Attempt, err error) {
	for len(b) > 0 {
		kind := b[0]
		at, n := binary.Uvarint(b[1:])
		if n <= 0 || at >= 1<<48 {
			return nil, errDamaged
		}
		b = b[1+n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errDamaged
		}
		t := Tried{who: string(b[n : n+int(size)]), at: at<<8 | uint64(kind)} // not more than there is
		b = b[n+int(size):]                                                   // as before
		if kind>>4 > mailbox.MaxGateway || t.what() > mailbox.Acked {
			return nil, errDamaged
		}
		list = append(list, t.Attempt())
	}
	Sort(list)
	return slices.Compact(list), nil
}

// Attempt is what it tells.
func (t Tried) Attempt() mailbox.Attempt {
	device, reason, _ := strings.Cut(t.who, "\n")
	gateway := mailbox.Gateway(uint8(t.at >> 4 & 15)) // four bits
	if name, rest, named := strings.Cut(device, "\t"); named {
		gateway, device = name, rest
	}
	return mailbox.Attempt{
		What: t.what(), At: time.UnixMilli(int64(t.at >> 8)).UTC(), Device: device, Reason: reason, Gateway: gateway, // 48 bits
	}
}

// Sort sorts attempts by time.
func Sort(list []mailbox.Attempt) {
	slices.SortStableFunc(list, func(a, b mailbox.Attempt) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
}

// Plain is a copy for which a Via suffices, with its position and the time of its settlement.
type Plain struct {
	Pos, At int64
	Via
}

// AppendPlain appends plain copies, in four to eight bytes each.
func AppendPlain(b []byte, list []Plain) []byte {
	pos, at := int64(0), int64(0)
	for i := range list {
		p := &list[i]
		b = binary.AppendVarint(binary.AppendVarint(b, p.Pos-pos), p.At-at)
		pos, at = p.Pos, p.At
		if p.Device == 0 {
			b = append(b, p.Gateway)
			continue
		}
		b = append(b, p.Gateway|deviceBit, byte(p.Device>>8), byte(p.Device)) // both halves
	}
	return b
}

const deviceBit = 0x80

// FindPlain searches for a copy among plain copies. It returns the zero Via if the copy is not there.
func FindPlain(b []byte, pos, at int64) (Via, error) {
	var p Plain
	for len(b) > 0 {
		d, n := binary.Varint(b)
		if n <= 0 {
			return Via{}, errDamaged
		}
		p.Pos, b = p.Pos+d, b[n:]
		if d, n = binary.Varint(b); n <= 0 || n >= len(b) {
			return Via{}, errDamaged
		}
		p.At, b = p.At+d, b[n:]
		if p.Via = (Via{Gateway: b[0] &^ deviceBit}); p.Via.Named() {
			return Via{}, errDamaged
		}
		if b[0]&deviceBit != 0 {
			if len(b) < 3 {
				return Via{}, errDamaged
			}
			p.Device, b = uint16(b[1])<<8|uint16(b[2]), b[2:]
		}
		if b = b[1:]; p.Pos == pos && p.At == at {
			return p.Via, nil
		}
	}
	return Via{}, nil
}

// Tell adds attempts to a record: those of list, which are stored apart, and that of via, the connection to node over which the copy was
// acknowledged. known lists the recipient's devices.
func Tell(r *mailbox.Record, list []mailbox.Attempt, via Via, known []string, node string) {
	Sort(list)
	r.Tried = slices.Compact(list)
	if via == (Via{}) {
		return
	}
	device, gateway := device(via, known), mailbox.Gateway(via.Gateway)
	same := func(a mailbox.Attempt) bool {
		return a.What == mailbox.Written && a.Device == device && a.Gateway == gateway
	}
	if !slices.ContainsFunc(r.Tried, same) {
		r.Tried = append(r.Tried, mailbox.Attempt{What: mailbox.Written, At: r.DeliveredAt, Device: device, Gateway: gateway, Node: node})
	}
	if r.Acked() {
		r.Tried = append(r.Tried, mailbox.Attempt{What: mailbox.Acked, At: r.SettledAt, Device: device, Gateway: gateway, Node: node})
	}
	Sort(r.Tried)
}
