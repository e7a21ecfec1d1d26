package object

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Digest summarises a set of registrations: the sum modulo 2^64 of its objects' hashes. Adding and removing an object
// is one addition, and order does not matter.
type Digest uint64

// Hash is the contribution of one object: the first 8 bytes, big-endian, of SHA-256 of group + "\n" + object.
func (k Key) Hash() Digest {
	var buf [2*128 + 1]byte
	b := append(append(append(buf[:0], k.Group...), '\n'), k.Object...)
	sum := sha256.Sum256(b)
	return Digest(binary.BigEndian.Uint64(sum[:8]))
}

// DigestOf returns the digest of a set; no key may occur twice.
func DigestOf(keys ...Key) (d Digest) {
	for _, k := range keys {
		d += k.Hash()
	}
	return d
}

// DigestLen is the length of a digest's text.
const DigestLen = 16

// Append appends the 16 hex digits.
func (d Digest) Append(dst []byte) []byte {
	const hex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hex[d>>shift&15])
	}
	return dst
}

func (d Digest) String() string { return string(d.Append(make([]byte, 0, DigestLen))) }

// ParseDigest reads 16 lower-case hex digits.
func ParseDigest(s string) (Digest, bool) {
	if len(s) != DigestLen {
		return 0, false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return Digest(n), err == nil
}
