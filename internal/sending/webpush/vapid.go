package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/provider"
)

// Key is a VAPID key pair (RFC 8292): browsers subscribe with its public half and accept messages signed with its private half.
type Key struct {
	private *ecdsa.PrivateKey
	public  string // uncompressed point, base64url
}

// NewKey makes a key pair.
func NewKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make VAPID key: %w", err)
	}
	return keyOf(private)
}

func keyOf(private *ecdsa.PrivateKey) (*Key, error) {
	if private.Curve != elliptic.P256() {
		return nil, errors.New("a VAPID key is on the curve P-256")
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encode VAPID key: %w", err)
	}
	return &Key{private: private, public: base64.RawURLEncoding.EncodeToString(point)}, nil
}

// Public is the application server key that pages subscribe with.
func (k *Key) Public() string { return k.public }

// Private returns the secret half, in a form that ParseKey reads.
func (k *Key) Private() string {
	b, err := k.private.Bytes()
	if err != nil {
		return "" // a key on P-256 always encodes
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Format hides the private half from every verb of fmt.
func (k *Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "VAPID key "+k.public) }

// ParseKey reads a private key as tools write it: the 32 bytes in base64url (web-push, Perfecty Push), PEM (pywebpush,
// openssl), or JSON with privateKey and publicKey.
func ParseKey(text []byte) (*Key, error) {
	s := textfile.Key(text)
	switch {
	case s == "":
		return nil, errors.New("VAPID key is empty")
	case strings.HasPrefix(s, "{"):
		return parseJSONKey(s)
	case strings.HasPrefix(s, "-----BEGIN"):
		return parsePEMKey(s)
	}
	b, err := DecodeKey(s)
	if err != nil {
		return nil, errors.New("VAPID key is neither base64url nor PEM nor JSON")
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b)
	if err != nil {
		return nil, errors.New("VAPID key is not a private key of 32 bytes on P-256")
	}
	return keyOf(private)
}

// parseJSONKey reads the output of "web-push generate-vapid-keys --json". It compares both keys, since a public key that does not belong to
// the private one would cut off every subscriber.
func parseJSONKey(s string) (*Key, error) {
	var v struct {
		Private  string `json:"privateKey"`
		Private2 string `json:"private_key"`
		Public   string `json:"publicKey"`
		Public2  string `json:"public_key"`
	}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, errors.New("VAPID key file is not valid JSON")
	}
	private, public := v.Private+v.Private2, v.Public+v.Public2
	if private == "" || strings.HasPrefix(private, "{") {
		return nil, errors.New("VAPID key file has no privateKey")
	}
	k, err := ParseKey([]byte(private))
	if err != nil || public == "" {
		return k, err
	}
	if b, err := DecodeKey(public); err != nil || base64.RawURLEncoding.EncodeToString(b) != k.public {
		return nil, errors.New("VAPID key file: publicKey does not belong to privateKey")
	}
	return k, nil
}

func parsePEMKey(s string) (*Key, error) {
	for rest := []byte(s); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("VAPID key file has no EC private key")
		}
		if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return keyOf(k)
		}
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := k.(*ecdsa.PrivateKey); ok {
				return keyOf(private)
			}
		}
	}
}

const (
	tokenLife  = 12 * time.Hour // RFC 8292, section 2 allows 24 h, but clocks differ
	tokenReuse = 8 * time.Hour  // the rest of the lifetime covers a provider's queue and a wrong clock
	// maxOrigins limits the cache: subscribers can name any origin. There are about five real ones.
	maxOrigins = 1024
)

// signer makes the Authorization header of requests, and caches it for hours: signing costs more than encrypting.
type signer struct {
	key     *Key
	subject string
	mu      sync.Mutex
	cached  map[string]signed // by origin
}

type signed struct {
	header string
	until  time.Time
}

func newSigner(key *Key, subject string) *signer {
	return &signer{key: key, subject: subject, cached: make(map[string]signed)}
}

// authorization returns the header's value for a push service.
func (s *signer) authorization(origin string, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.cached[origin]; ok && now.Before(c.until) && now.Add(tokenReuse).After(c.until.Add(-time.Minute)) {
		return c.header, nil
	}
	token, err := s.token(origin, now.Add(tokenLife))
	if err != nil {
		return "", err
	}
	if len(s.cached) >= maxOrigins {
		clear(s.cached) // somebody is inventing origins; signing again for the real ones costs microseconds
	}
	header := "vapid t=" + token + ", k=" + s.key.public
	s.cached[origin] = signed{header: header, until: now.Add(tokenReuse)}
	return header, nil
}

// Token signs a token for a push service by itself, such as for tests of one.
func (k *Key) Token(origin string, expires time.Time) (string, error) {
	return (&signer{key: k}).token(origin, expires)
}

// token signs a JWT with ES256.
func (s *signer) token(origin string, expires time.Time) (string, error) {
	input, err := signingInput(origin, s.subject, expires)
	if err != nil {
		return "", err
	}
	return provider.SignES256(s.key.private, input)
}

func signingInput(origin, subject string, expires time.Time) (string, error) {
	return provider.SigningInput(`{"typ":"JWT","alg":"ES256"}`, struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub,omitempty"`
	}{origin, expires.Unix(), subject})
}
