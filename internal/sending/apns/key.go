package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
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

// Key is the private key of a .p8 file.
type Key struct{ private *ecdsa.PrivateKey }

// Format hides the key from every verb of fmt.
func (*Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[redacted]") }

// ParseKey parses a .p8 file. Its errors name the fault and contain nothing of the file.
func ParseKey(text string) (*Key, error) {
	text = textfile.Key([]byte(text))
	block, _ := pem.Decode([]byte(text))
	switch {
	case block == nil && !strings.Contains(text, "-----BEGIN"):
		return nil, errors.New("is not a .p8 file: it must begin with -----BEGIN PRIVATE KEY-----")
	case block == nil:
		return nil, errors.New("is a damaged .p8 file: lines are missing or broken between -----BEGIN and -----END")
	case block.Type == "CERTIFICATE" || block.Type == "ENCRYPTED PRIVATE KEY" || block.Type == "PUBLIC KEY":
		return nil, fmt.Errorf("is a %s: what is needed is the .p8 file of a key for APNs", strings.ToLower(block.Type))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if parsed, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return nil, errors.New("is a damaged .p8 file: between -----BEGIN and -----END there is no private key in the form PKCS #8")
		}
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("is not a key for APNs: it is not on the curve P-256")
	}
	return &Key{private}, nil
}

const (
	// tokenReuse is how long a token is used: APNs accepts a token for an hour, by its own clock.
	tokenReuse = 40 * time.Minute
	// tokenLast is the greatest age of a token after APNs has reported that it gets too many tokens.
	tokenLast = 55 * time.Minute
	// tokenRest is the least time for which APNs wants a token to be used. All tokens made within one such period are the same: restarts,
	// or several servers with one key, do not change the token more often.
	tokenRest = 20 * time.Minute
	// clockBack is how far the clock must have been set back before a token counts as one from the future.
	clockBack = time.Minute
)

// signer makes the token that authenticates us, and reuses it: APNs refuses senders that change the token often.
type signer struct {
	key           *Key
	keyID, teamID string

	mu      sync.Mutex
	current string
	made    time.Time
	keep    time.Time // APNs wants no new token before this time
}

// token returns the current token.
func (s *signer) token(now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Sub(s.made)
	if s.current != "" && age > -clockBack && (age < tokenReuse || age < tokenLast && now.Before(s.keep)) {
		return s.current, nil
	}
	return s.make(now)
}

// renew returns another token than the given one, which was found too old.
func (s *signer) renew(old string, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != old {
		return s.current, nil
	}
	if age := now.Sub(s.made); age > -clockBack && age < tokenRest {
		return "", fmt.Errorf("our token is %s old; is this machine's clock right?", max(age, 0).Round(time.Second))
	}
	return s.make(now)
}

// tooMany records that APNs wants the token to be used longer.
func (s *signer) tooMany(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = now.Add(tokenRest)
}

// make signs a token. s.mu is held.
func (s *signer) make(now time.Time) (string, error) {
	now = now.Truncate(tokenRest)
	input, err := provider.SigningInput(`{"alg":"ES256","kid":"`+s.keyID+`"}`, struct {
		Issuer string `json:"iss"`
		Issued int64  `json:"iat"`
	}{s.teamID, now.Unix()})
	if err != nil {
		return "", err
	}
	token, err := provider.SignES256(s.key.private, input)
	if err != nil {
		return "", err
	}
	s.current, s.made = token, now
	return token, nil
}
