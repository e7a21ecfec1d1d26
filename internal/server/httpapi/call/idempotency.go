package call

import (
	"net/http"

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
