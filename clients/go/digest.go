package godwit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// objectKey names an object within its app.
type objectKey struct{ group, object string }

func (k objectKey) String() string { return k.group + "/" + k.object }

// hash returns what one registration adds to a digest: the first 8 bytes, big-endian, of SHA-256 of group + "\n" + object.
func (k objectKey) hash() uint64 {
	sum := sha256.Sum256([]byte(k.group + "\n" + k.object))
	return binary.BigEndian.Uint64(sum[:])
}

// formatDigest formats a digest for frames. A digest is the sum modulo 2^64 of its registrations' hashes.
func formatDigest(d uint64) string { return fmt.Sprintf("%016x", d) }

func parseDigest(s string) (uint64, bool) {
	d, err := strconv.ParseUint(s, 16, 64)
	return d, err == nil && len(s) == 16
}
