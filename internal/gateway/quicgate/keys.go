package quicgate

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quic-go/quic-go"
)

// Keys make the tokens that outlive a restart.
type Keys struct {
	Reset quic.StatelessResetKey // by it a server that was started anew tells clients at once that it does not know their connection
	Token quic.TokenGeneratorKey // of retry tokens, and of those by which an address that is known needs none
}

// KeyFile is the file with the secret of the keys, in the data folder.
const KeyFile = "quic.key"

// secretBytes is the length of the secret.
const secretBytes = 32

// LoadKeys derives the keys from the secret in a file, which it makes if there is none.
func LoadKeys(dir string) (k Keys, err error) {
	name := filepath.Join(dir, KeyFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		secret := make([]byte, secretBytes)
		_, _ = rand.Read(secret) // never fails
		text = []byte(hex.EncodeToString(secret) + "\n")
		if err = os.WriteFile(name+".tmp", text, 0o600); err == nil { // in one step: half a key would keep the server from starting
			err = os.Rename(name+".tmp", name)
		}
	}
	if err != nil {
		return k, fmt.Errorf("keep the key of QUIC: %w", err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != secretBytes {
		return k, fmt.Errorf("read the key of QUIC: %s is not of 64 hex digits; remove the file, and a new key is made at the start", name)
	}
	for what, into := range map[string][]byte{"godwit quic stateless reset": k.Reset[:], "godwit quic address token": k.Token[:]} {
		b, err := hkdf.Key(sha256.New, secret, nil, what, len(into))
		if err != nil {
			return k, fmt.Errorf("derive the keys of QUIC: %w", err)
		}
		copy(into, b)
	}
	return k, nil
}

// idBytes is the length of connection IDs: eight random bytes.
const idBytes = 8

// nonceBytes are random in a connection ID that begins with the server's.
const nonceBytes = 8

// serverIDs makes connection IDs by which a balancer finds this server (QUIC-LB, plaintext): a byte with the configuration 0 and the length of the rest, the
// server's ID, and random bytes. An observer can tell which connections are of one server.
type serverIDs []byte

// mostServerID is the most bytes of a server's ID: a connection ID has 20.
const mostServerID = 20 - 1 - nonceBytes

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (s serverIDs) GenerateConnectionID() (quic.ConnectionID, error) {
	b := make([]byte, 1+len(s)+nonceBytes)
	b[0] = byte(len(s) + nonceBytes)
	copy(b[1:], s)
	_, _ = rand.Read(b[1+len(s):]) // never fails
	return quic.ConnectionIDFromBytes(b), nil
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (s serverIDs) ConnectionIDLen() int { return 1 + len(s) + nonceBytes }
