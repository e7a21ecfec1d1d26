package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
)

// maxIdempotencyKey bounds the header; keys are UUIDs or short names.
const maxIdempotencyKey = 255

// idempotencyKey returns the Idempotency-Key header, or "".
func idempotencyKey(h http.Header) (string, error) {
	vs := h["Idempotency-Key"]
	switch {
	case len(vs) == 0:
		return "", nil
	case len(vs) > 1:
		return "", badField("Idempotency-Key", "is given twice")
	case vs[0] == "":
		return "", badField("Idempotency-Key", "is empty")
	case len(vs[0]) > maxIdempotencyKey:
		return "", badField("Idempotency-Key", "has %d bytes; at most %d are allowed", len(vs[0]), maxIdempotencyKey)
	}
	return vs[0], nil
}

// derivedID makes the id of the index-th notification of a request that has an idempotency key and gives no id, so
// that a retry of the request finds its first try as a duplicate. It does not look like an id made at random: the
// store must remember it.
func derivedID(app, key string, index int) string {
	h := sha256.New()
	h.Write([]byte(app + "\x00" + strconv.Itoa(index) + "\x00" + key))
	var sum [sha256.Size]byte
	return "idem-" + hex.EncodeToString(h.Sum(sum[:0])[:16])
}
