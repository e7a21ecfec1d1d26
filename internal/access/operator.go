package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/textfile"
)

// OperatorFile is the name of the file in a data folder that contains the operator key.
const OperatorFile = "operator.key"

// operatorPrefix begins every operator key, so that nobody takes one for the API key of an app: gwo_<id>_<secret>.
const operatorPrefix = "gwo_"

// operatorSecretBytes is the number of random bytes in an operator key: 200 bits, since it opens all apps.
const operatorSecretBytes = 25

// ErrOperatorChanged reports that another operator replaced the operator key meanwhile.
var ErrOperatorChanged = errors.New("another operator key is in use by now")

// OperatorKey is the server-wide key that manages apps, as it is stored: with a hash of its text. All nodes that share a store share it.
type OperatorKey struct {
	ID        string
	Hash      [sha256.Size]byte
	CreatedAt time.Time
}

// IsOperatorKey reports whether a text has the form of an operator key. It says nothing about its validity.
func IsOperatorKey(text string) bool { return strings.HasPrefix(text, operatorPrefix) }

// newOperatorKey makes an operator key and its text.
func newOperatorKey(now time.Time) (OperatorKey, string) {
	var id [keyIDBytes]byte
	var secret [operatorSecretBytes]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(secret[:])
	text := operatorPrefix + keyText.EncodeToString(id[:]) + "_" + keyText.EncodeToString(secret[:])
	k, _ := operatorKeyOf(text, now)
	return k, text
}

// minOperatorKey is the minimum length of an operator key that an operator wrote: its prefix, and 26 characters for 128 random bits.
const minOperatorKey = 32

// operatorKeyOf returns the stored form of a key's text.
func operatorKeyOf(text string, now time.Time) (OperatorKey, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(text, operatorPrefix), "_")
	if !IsOperatorKey(text) || len(text) < minOperatorKey || len(id) > 32 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return OperatorKey{}, fmt.Errorf("an operator key is one word like %sNAME_SECRET, of at least %d random characters", operatorPrefix, minOperatorKey)
	}
	return OperatorKey{ID: id, Hash: sha256.Sum256([]byte(text)), CreatedAt: now}, nil
}

// OperatorName is the name of an operator in the audit log and in logs, by the public id of the key.
func OperatorName(id string) string { return "operator-" + id }

// Operator returns the public id of the operator key if secret is that key.
func (r *Registry) Operator(secret string) (id string, ok bool) {
	k := r.snap.Load().operator
	if k == nil {
		return "", false
	}
	hash := sha256.Sum256([]byte(secret))
	return k.ID, subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1
}

// OperatorID returns the public id of the operator key; "" if there is none.
func (r *Registry) OperatorID() string {
	if k := r.snap.Load().operator; k != nil {
		return k.ID
	}
	return ""
}

// EnsureOperator makes sure that there is an operator key. If the store has none, the key in the file counts, and without a file a new key
// is made and written to it. made is the text of a new key. If another node makes one at the same time, that one counts, and this node
// keeps no file. lacking reports that a key is in use that the file does not contain.
func (r *Registry) EnsureOperator(ctx context.Context, file string) (made string, lacking bool, err error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read operator key: %w", err)
	}
	text := textfile.Plain(b)
	if r.snap.Load().operator != nil {
		_, same := r.Operator(text)
		return "", !same, nil
	}
	var k OperatorKey
	now := time.Now().UTC().Truncate(time.Millisecond)
	if text == "" {
		k, made = newOperatorKey(now)
		if err := WriteOperatorKey(file, made); err != nil {
			return "", false, err
		}
	} else if k, err = operatorKeyOf(text, now); err != nil {
		return "", false, fmt.Errorf("read operator key from %s: %w", file, err)
	}
	err = r.store.AddOperator(ctx, k)
	if errors.Is(err, ErrExists) { // another node was quicker
		if made != "" {
			if err := os.Remove(file); err != nil {
				return "", false, fmt.Errorf("remove the operator key that is not needed: %w", err)
			}
		}
		if err := r.Reload(ctx); err != nil {
			return "", false, err
		}
		_, same := r.Operator(text)
		return "", !same, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("store the operator key: %w", err)
	}
	r.log.InfoContext(ctx, "operator key in use", "key", OperatorName(k.ID), "file", file)
	return made, false, r.Reload(ctx)
}

// RotateOperator replaces the operator key with a new one, whose text it returns. former is the id of the key that the caller knows; if
// another key is in use by now, RotateOperator fails with ErrOperatorChanged. An empty former replaces any key, or none.
func (r *Registry) RotateOperator(ctx context.Context, former string) (OperatorKey, string, error) {
	k, text := newOperatorKey(time.Now().UTC().Truncate(time.Millisecond))
	if err := r.store.ReplaceOperator(ctx, former, k); err != nil {
		return OperatorKey{}, "", fmt.Errorf("replace the operator key: %w", err)
	}
	r.log.InfoContext(ctx, "operator key replaced", "former", OperatorName(former), "key", OperatorName(k.ID))
	return k, text, r.Reload(ctx)
}

// WriteOperatorKey replaces a file with the text of an operator key in one step. Only its owner may read it.
func WriteOperatorKey(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write operator key: %w", err)
	}
	tmp := file + ".tmp"
	_ = os.Remove(tmp) // a file that is there would keep its mode
	err := os.WriteFile(tmp, []byte(text+"\n"), 0o600)
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return fmt.Errorf("write operator key: %w", err)
	}
	return nil
}

// ReadOperatorKey returns the operator key in a file; "" if the file does not exist.
func ReadOperatorKey(file string) (string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read operator key: %w", err)
	}
	return textfile.Plain(b), nil
}
