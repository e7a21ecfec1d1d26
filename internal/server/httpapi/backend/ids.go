package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// DerivedID makes the id of the index-th notification of a request that has an idempotency key and gives no id, so
// that a retry of the request finds its first try as a duplicate. It does not look like an id made at random: the
// store must remember it.
func DerivedID(app, key string, index int) string {
	h := sha256.New()
	h.Write([]byte(app + "\x00" + strconv.Itoa(index) + "\x00" + key))
	var sum [sha256.Size]byte
	return "idem-" + hex.EncodeToString(h.Sum(sum[:0])[:16])
}
