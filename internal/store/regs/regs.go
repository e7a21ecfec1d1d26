// Package regs encodes a client's registrations for stores, which keep them in one row.
package regs

import (
	"encoding/binary"
	"errors"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

var errDamaged = errors.New("stored registrations are damaged")

// EncodeKeys writes a client's registered objects: for each the length and bytes of its group, which is empty where it
// is the client's own, then of its name.
func EncodeKeys(own string, keys []object.Key) []byte {
	n := 0
	for _, k := range keys {
		n += 2 + len(k.Object)
	}
	b := make([]byte, 0, n)
	for _, k := range keys {
		if k.Group == own {
			b = append(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(k.Group))), k.Group...)
		}
		b = append(binary.AppendUvarint(b, uint64(len(k.Object))), k.Object...)
	}
	return b
}

// DecodeKeys calls each with every key that EncodeKeys wrote.
func DecodeKeys(own string, b []byte, each func(object.Key)) error {
	for len(b) > 0 {
		group, rest, ok := cutText(b)
		if !ok {
			return errDamaged
		}
		name, rest, ok := cutText(rest)
		if !ok || name == "" {
			return errDamaged
		}
		if group == "" {
			group = own
		}
		each(object.Key{Group: group, Object: name})
		b = rest
	}
	return nil
}

func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	b = b[size:]
	return string(b[:n]), b[n:], true
}

// EncodeProgress writes 8 bytes of hash and two numbers for each object of which the client has a version.
func EncodeProgress(ps []objectstore.Progress) []byte {
	b := make([]byte, 0, 12*len(ps))
	for _, p := range ps {
		if p.Acked == 0 && p.Sent == 0 {
			continue
		}
		b = binary.BigEndian.AppendUint64(b, uint64(p.Object))
		b = binary.AppendUvarint(b, uint64(p.Acked))
		b = binary.AppendVarint(b, int64(p.Sent-p.Acked))
	}
	return b
}

// DecodeProgress reads what EncodeProgress wrote.
func DecodeProgress(b []byte) (ps []objectstore.Progress, err error) {
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errDamaged
		}
		p := objectstore.Progress{Object: object.Digest(binary.BigEndian.Uint64(b))}
		acked, n := binary.Uvarint(b[8:])
		if n <= 0 {
			return nil, errDamaged
		}
		ahead, m := binary.Varint(b[8+n:])
		if m <= 0 {
			return nil, errDamaged
		}
		p.Acked = object.Version(acked)
		p.Sent = p.Acked + object.Version(ahead)
		ps, b = append(ps, p), b[8+n+m:]
	}
	return ps, nil
}
