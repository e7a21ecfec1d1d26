package mailboxdb

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// idHash is an id's part of an index key. It is stored, so it must never change. It is cryptographic because ids come from clients, who
// must not find many that collide.
func idHash(app, id string) uint32 {
	var buf [2*notification.MaxNameBytes + 1]byte
	b := append(buf[:0], app...)
	b = append(b, '\n')
	b = append(b, id...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint32(sum[:])
}

func collapseHash(key string) uint32 {
	if key == "" {
		return 0
	}
	return max(1, idHash("", key))
}

// fromMS converts a stored time. Zero and negative values, which mean unknown, become the zero time.
func fromMS(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
