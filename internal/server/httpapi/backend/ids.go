package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// DerivedID makes the id of the index-th notification of a request that has an idempotency key but no id. A retry of the request thus finds
// its first try as a duplicate. The id does not look random, so the store must remember it.
func DerivedID(app, key string, index int) string {
	h := sha256.New()
	h.Write([]byte(app + "\x00" + strconv.Itoa(index) + "\x00" + key))
	var sum [sha256.Size]byte
	return "idem-" + hex.EncodeToString(h.Sum(sum[:0])[:16])
}
