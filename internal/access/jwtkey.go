package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"unicode"

	"github.com/go-jose/go-jose/v4"

	"godwit.dev/godwit/internal/campaigns/textfile"
)

// Minimum sizes of keys: RFC 7518 sections 3.2 and 3.3.
const (
	minHMACBytes = 32
	minRSABits   = 2048
)

// algorithms are those allowed for client tokens. The type of the key alone determines which one applies.
var algorithms = []jose.SignatureAlgorithm{jose.HS256, jose.RS256, jose.ES256, jose.EdDSA}

// JWTKey verifies client tokens with the one algorithm that its type allows. Its key material is never printed.
type JWTKey struct {
	ID        string `json:"kid,omitempty"`
	Algorithm string `json:"alg"` // HS256, RS256, ES256 or EdDSA
	Mints     bool   `json:"mints,omitempty"`

	material any // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// Format omits the key material, whatever the verb.
func (k JWTKey) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "JWTKey("+k.Algorithm+" "+k.ID+")")
}

// newMintKey returns a new HS256 key, which every app is created with.
func newMintKey() JWTKey {
	secret := make([]byte, minHMACBytes)
	_, _ = rand.Read(secret)
	return JWTKey{ID: "godwit-" + rand.Text()[:8], Algorithm: string(jose.HS256), Mints: true, material: secret}
}

// ParseJWTKeys parses keys from a file: a JWK, a JWK set, PEM (public key, private key or certificate; only the public part is kept), or
// else a raw HS256 secret of at least 32 bytes. If the secret is text, its final line break is removed.
func ParseJWTKeys(file []byte) ([]JWTKey, error) {
	text := []byte(textfile.Key(file))
	switch {
	case len(text) == 0:
		return nil, errors.New("key file is empty")
	case text[0] == '{' && json.Valid(text):
		return parseJWKs(text)
	case bytes.Contains(text, []byte("-----BEGIN ")):
		return parsePEM(text)
	}
	secret := bytes.Clone(file)
	switch plain := textfile.Plain(file); {
	case isText(secret):
		secret = bytes.TrimRight(secret, "\r\n")
	case isText([]byte(plain)) && plain != "":
		secret = []byte(plain) // text in another encoding, or after a byte-order mark
	}
	k, err := pinned("", "", "", secret)
	if err != nil {
		return nil, err
	}
	return []JWTKey{k}, nil
}

func isText(b []byte) bool {
	for _, c := range b {
		if c > unicode.MaxASCII || !unicode.IsPrint(rune(c)) && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

func parseJWKs(text []byte) ([]JWTKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("key file is not a JWK set: keys must be a list")
	}
	if set.Keys == nil {
		set.Keys = []json.RawMessage{text}
	}
	keys := make([]JWTKey, 0, len(set.Keys))
	for i, raw := range set.Keys {
		k, err := parseJWK(raw)
		if err != nil {
			return nil, fmt.Errorf("read key %d of the JWK set: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("JWK set has no keys")
	}
	return keys, nil
}

func parseJWK(raw []byte) (JWTKey, error) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil {
		return JWTKey{}, errors.New("it is not a valid JWK") // the library's error might quote the key
	}
	return pinned(jwk.KeyID, jwk.Algorithm, jwk.Use, jwk.Key)
}

func parsePEM(text []byte) ([]JWTKey, error) {
	var keys []JWTKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		material, err := parsePEMBlock(block)
		if err != nil {
			return nil, err
		}
		k, err := pinned("", "", "", material)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("key file is not valid PEM")
	}
	return keys, nil
}

func parsePEMBlock(block *pem.Block) (any, error) {
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		return nil, fmt.Errorf("PEM block %q is not a key", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("PEM block %q cannot be read", block.Type)
	}
	return key, nil
}

// pinned binds key material to the one algorithm of its type, and keeps only the public part of a key pair.
func pinned(id, alg, use string, material any) (JWTKey, error) {
	k := JWTKey{ID: id}
	switch m := material.(type) {
	case []byte:
		if len(m) < minHMACBytes {
			return k, fmt.Errorf("an HS256 secret needs at least %d bytes, this one has %d", minHMACBytes, len(m))
		}
		k.Algorithm, k.material = string(jose.HS256), m
	case *rsa.PrivateKey:
		return pinned(id, alg, use, &m.PublicKey)
	case *ecdsa.PrivateKey:
		return pinned(id, alg, use, &m.PublicKey)
	case ed25519.PrivateKey:
		return pinned(id, alg, use, m.Public())
	case *rsa.PublicKey:
		if m.N.BitLen() < minRSABits {
			return k, fmt.Errorf("an RSA key needs at least %d bits, this one has %d", minRSABits, m.N.BitLen())
		}
		k.Algorithm, k.material = string(jose.RS256), m
	case *ecdsa.PublicKey:
		if m.Curve != elliptic.P256() {
			return k, fmt.Errorf("curve %s is not supported; ES256 uses P-256", m.Params().Name)
		}
		k.Algorithm, k.material = string(jose.ES256), m
	case ed25519.PublicKey:
		k.Algorithm, k.material = string(jose.EdDSA), m
	default:
		return k, errors.New("the key's type is not supported; use HS256, RS256, ES256 or EdDSA")
	}
	if alg != "" && alg != k.Algorithm {
		return k, fmt.Errorf("algorithm %.20q is not supported for this key; it can only be used with %s", alg, k.Algorithm)
	}
	if use != "" && use != "sig" {
		return k, fmt.Errorf("a key for use %.20q does not verify tokens", use)
	}
	return k, nil
}

// storedJWTKey is a key with its material; only the store may use it.
type storedJWTKey struct {
	Mints bool            `json:"mints,omitempty"`
	JWK   json.RawMessage `json:"jwk"`
}

// EncodeJWTKeys encodes keys including secrets, for a store that protects them.
func EncodeJWTKeys(keys []JWTKey) ([]byte, error) {
	stored := make([]storedJWTKey, 0, len(keys))
	for _, k := range keys {
		jwk, err := jose.JSONWebKey{Key: k.material, KeyID: k.ID, Algorithm: k.Algorithm}.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode key %q: %w", k.ID, err)
		}
		stored = append(stored, storedJWTKey{k.Mints, jwk})
	}
	return json.Marshal(stored)
}

// DecodeJWTKeys reads what EncodeJWTKeys wrote.
func DecodeJWTKeys(b []byte) ([]JWTKey, error) {
	var stored []storedJWTKey
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, errors.New("stored keys are not a list")
	}
	keys := make([]JWTKey, 0, len(stored))
	for _, s := range stored {
		k, err := parseJWK(s.JWK)
		if err != nil {
			return nil, fmt.Errorf("read stored key %d: %w", len(keys)+1, err)
		}
		k.Mints = s.Mints
		keys = append(keys, k)
	}
	return keys, nil
}
