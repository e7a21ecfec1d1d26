package mailboxdb

import (
	"encoding/binary"
	"errors"
	"math"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/attempts"
)

// outcome is how a copy ended, in 24 bytes.
type outcome struct {
	as        notification.Status // 0: the copy has not ended, or its row holds the outcome
	gateway   uint8               // gateway of the only connection to which the copy was written and which acknowledged it; 0: unknown, or there were several
	device    uint16              // a hash of that connection's device name; 0: it has none
	attempts  uint32
	at        int64 // ms
	delivered int64 // ms; ≤ 0: not known
}

// 2^stretchBits positions share one blob of outcomes, which fits a page.
const stretchBits = 9

var errOutcomes = errors.New("stored outcomes are damaged")

// settled is a copy that a commit settles.
type settled struct {
	pos int64
	outcome
}

// The first byte of a stored outcome: the status, the gateway, and whether two bytes of a device follow.
const (
	statusBits   = 0x0F
	gatewayShift = 4
	deviceBit    = 0x80
)

func (o *outcome) via() attempts.Via { return attempts.Via{Gateway: o.gateway, Device: o.device} }

// appendOutcome appends an outcome to b, with its time as the difference from before, and returns its time as the next before.
func appendOutcome(b []byte, o *outcome, before int64) ([]byte, int64) {
	first := byte(o.as) | o.gateway<<gatewayShift
	if o.device == 0 {
		b = append(b, first)
	} else {
		b = append(b, first|deviceBit, byte(o.device>>8), byte(o.device)) // both halves
	}
	b = binary.AppendVarint(b, o.at-before)
	b = binary.AppendUvarint(b, uint64(o.attempts))
	if o.delivered <= 0 {
		return append(b, 0), o.at
	}
	return binary.AppendUvarint(b, zigzag(o.at-o.delivered)+1), o.at
}

func zigzag(n int64) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// cutOutcome is the reverse.
func cutOutcome(b []byte, before int64) (o outcome, rest []byte, err error) {
	if len(b) == 0 || b[0]&statusBits == 0 {
		return o, nil, errOutcomes
	}
	o.as, o.gateway = notification.Status(b[0]&statusBits), b[0]&^deviceBit>>gatewayShift
	if b[0]&deviceBit != 0 {
		if len(b) < 3 {
			return o, nil, errOutcomes
		}
		o.device, b = uint16(b[1])<<8|uint16(b[2]), b[2:]
	}
	at, n := binary.Varint(b[1:])
	if n <= 0 {
		return o, nil, errOutcomes
	}
	b = b[1+n:]
	attempts, n := binary.Uvarint(b)
	if n <= 0 || attempts > math.MaxUint32 {
		return o, nil, errOutcomes
	}
	b = b[n:]
	ago, n := binary.Uvarint(b)
	if n <= 0 {
		return o, nil, errOutcomes
	}
	o.attempts, o.at = uint32(attempts), before+at
	if ago > 0 {
		o.delivered = o.at - unzigzag(ago-1)
	}
	return o, b[n:], nil
}

// encodeSettled returns the stored form of a commit's settlements.
func encodeSettled(b []byte, list []settled) []byte {
	pos, at := int64(0), int64(0)
	for i := range list {
		b = binary.AppendVarint(b, list[i].pos-pos)
		pos = list[i].pos
		b, at = appendOutcome(b, &list[i].outcome, at)
	}
	return b
}

// decodeSettled is the inverse of encodeSettled; it calls yield for each copy.
func decodeSettled(b []byte, yield func(*settled)) error {
	var q settled
	for len(b) > 0 {
		pos, n := binary.Varint(b)
		if n <= 0 {
			return errOutcomes
		}
		var err error
		q.pos += pos
		if q.outcome, b, err = cutOutcome(b[n:], q.at); err != nil {
			return err
		}
		yield(&q)
	}
	return nil
}

// encodeOutcomes returns the stored form of a stretch's outcomes.
func encodeOutcomes(list []outcome) []byte {
	b, at := make([]byte, 0, 8*len(list)), int64(0)
	for i := range list {
		if list[i].as == 0 {
			b = append(b, 0)
			continue
		}
		b, at = appendOutcome(b, &list[i], at)
	}
	return b
}

// decodeOutcomes is the reverse.
func decodeOutcomes(b []byte) (list []outcome, err error) {
	list = make([]outcome, 0, 1<<stretchBits)
	at := int64(0)
	for len(b) > 0 {
		if len(list) == 1<<stretchBits {
			return nil, errOutcomes
		}
		var o outcome
		if b[0] == 0 {
			b = b[1:]
		} else if o, b, err = cutOutcome(b, at); err != nil {
			return nil, err
		} else {
			at = o.at
		}
		list = append(list, o)
	}
	return list, nil
}
