package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// Key is an API key without its secret.
type Key struct {
	ID        string
	App       string
	Name      string // purpose, chosen by its owner; may be empty
	Roles     Role
	CreatedAt time.Time
	LastUsed  time.Time // accurate to about a minute; zero: never
	Prefix    string    // the first characters of the secret text, by which people recognise the key
}

// An API key has the form gw_<id>_<secret>. The id is public. The secret has 160 random bits, more than the 128 that make guessing
// infeasible, and is plain lower case, so that a double click selects it whole.
const (
	keyPrefix      = "gw_"
	keyIDBytes     = 5
	keySecretBytes = 20
)

var keyText = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// newKey returns a key and its text, which is shown only once.
func newKey(app, name string, roles Role, now time.Time) (StoredKey, string) {
	var id [keyIDBytes]byte
	var secret [keySecretBytes]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(secret[:])
	prefix := keyPrefix + keyText.EncodeToString(id[:])
	text := prefix + "_" + keyText.EncodeToString(secret[:])
	return StoredKey{
		Key:  Key{ID: prefix[len(keyPrefix):], App: app, Name: name, Roles: roles, CreatedAt: now, Prefix: prefix},
		Hash: sha256.Sum256([]byte(text)),
	}, text
}

// liveKey is a valid key. Snapshots share the time of its last use.
type liveKey struct {
	StoredKey
	used *atomic.Int64 // time of last use, in milliseconds; 0: not since the start
}

// useGrain is the precision of the last use: a write at every publish would cause contention between cores.
const useGrain = time.Second

func (k *liveKey) touch(now time.Time) {
	if ms := now.UnixMilli(); ms-k.used.Load() >= useGrain.Milliseconds() {
		k.used.Store(ms)
	}
}

// lastUsed returns the later of the stored time and the last use in this process.
func (k *liveKey) lastUsed() time.Time {
	if used := time.UnixMilli(k.used.Load()).UTC(); used.After(k.LastUsed) && k.used.Load() != 0 {
		return used
	}
	return k.LastUsed
}

// keyring finds keys by their secret. A fast hash suffices because secrets are random and cannot be guessed.
type keyring map[uint64][]*liveKey

func newKeyring(keys []*liveKey) keyring {
	ring := make(keyring, len(keys))
	for _, k := range keys {
		at := binary.BigEndian.Uint64(k.Hash[:])
		ring[at] = append(ring[at], k)
	}
	return ring
}

func (ring keyring) find(secret string) *liveKey {
	hash := sha256.Sum256([]byte(secret))
	for _, k := range ring[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1 {
			return k
		}
	}
	return nil
}
