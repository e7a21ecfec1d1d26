package audience

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// ID is an endpoint's public id: 128 bits, formatted as a ULID. Subscribers from a service that identifies them by UUID keep their UUID,
// which is another format for the same bits.
type ID [16]byte

// NewID returns an id from a time and 80 random bits.
func NewID(now time.Time) (id ID) {
	_, _ = rand.Read(id[6:]) // never fails: crypto/rand ends the process instead
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli())) // after 1970
	copy(id[:6], ms[2:])
	return id
}

// NewUUID returns an id that is a random UUID (RFC 9562, version 4).
func NewUUID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails: see NewID
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// String formats the id as a ULID: 26 characters of Crockford's base 32.
func (id ID) String() string {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	var b [26]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(b[:])
}

// UUID formats the id as a UUID.
func (id ID) UUID() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseID parses an id in the form of a ULID or of a UUID.
func ParseID(s string) (id ID, err error) {
	switch len(s) {
	case 26:
		if id, ok := parseULID(s); ok {
			return id, nil
		}
	case 36:
		plain := strings.ReplaceAll(s, "-", "")
		if n, err := hex.Decode(id[:], []byte(plain)); err == nil && n == len(id) && strings.EqualFold(id.UUID(), s) {
			return id, nil
		}
	}
	return ID{}, notification.BadField("id", "%.40q is not the id of an endpoint: write its ULID or UUID", s)
}

func parseULID(s string) (id ID, ok bool) {
	var hi, lo uint64
	for i := range len(s) {
		d := strings.IndexByte(crockford, s[i]&^(s[i]>>1&0x20)) // letters in upper case
		if d < 0 || i == 0 && d > 7 {
			return ID{}, false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(d) // below 32
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}

// tokenPrefix distinguishes manage tokens from API keys.
const tokenPrefix = "gwm_"

// TokenHash is the stored form of a manage token.
type TokenHash [sha256.Size]byte

// NewToken returns a manage token, which lets its holder read, change and delete one endpoint, and the hash to store.
func NewToken() (token string, hash TokenHash) {
	var secret [20]byte
	_, _ = rand.Read(secret[:]) // never fails: see NewID
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, HashToken(token)
}

// IsToken reports whether a bearer token has the form of a manage token.
func IsToken(s string) bool { return strings.HasPrefix(s, tokenPrefix) }

// HashToken returns the stored form of a manage token. A fast hash suffices: 160 random bits cannot be guessed.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Opens reports whether the hash is that of the token.
func (h TokenHash) Opens(token string) bool {
	got := HashToken(token)
	return h != (TokenHash{}) && subtle.ConstantTimeCompare(h[:], got[:]) == 1
}
