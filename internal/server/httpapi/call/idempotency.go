package call

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/notify/notification"
)

// maxIdempotencyKey limits the header, in bytes; keys are UUIDs or short names.
const maxIdempotencyKey = 255

// IdempotencyKey returns the Idempotency-Key header, or "".
func IdempotencyKey(h http.Header) (string, error) {
	vs := h["Idempotency-Key"]
	switch {
	case len(vs) == 0:
		return "", nil
	case len(vs) > 1:
		return "", notification.BadField("Idempotency-Key", "is given twice")
	case vs[0] == "":
		return "", notification.BadField("Idempotency-Key", "is empty")
	}
	return vs[0], CheckIdempotencyKey(vs[0])
}

// CheckIdempotencyKey refuses a key that is too long or cannot be stored.
func CheckIdempotencyKey(key string) error {
	if len(key) > maxIdempotencyKey {
		return notification.BadField("Idempotency-Key", "has %d bytes; at most %d are allowed", len(key), maxIdempotencyKey)
	}
	return notification.CheckText("Idempotency-Key", key)
}

// DerivedID makes the id of the index-th notification of a request that has an idempotency key but no id. A retry of the request thus finds
// its first try as a duplicate. The id does not look random, so the store must remember it.
func DerivedID(app, key string, index int) string {
	h := sha256.New()
	h.Write([]byte(app + "\x00" + strconv.Itoa(index) + "\x00" + key))
	var sum [sha256.Size]byte
	return "idem-" + hex.EncodeToString(h.Sum(sum[:0])[:16])
}
