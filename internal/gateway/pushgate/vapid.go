package pushgate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Limits of VAPID (RFC 8292). Senders use a token for many messages, so a token that was read on the way can be sent again: until it expires, to
// the origin in it, and only to channels of its key.
const (
	longestToken = 24 * time.Hour
	clockSkew    = time.Minute // of senders' clocks
	maxVerified  = 8192        // tokens that are remembered as verified: 400 KB
)

// senders verifies senders' tokens, and remembers those that it has verified.
type senders struct {
	mu       sync.Mutex
	verified map[[sha256.Size]byte]claims
}

// claims are those of a token.
type claims struct {
	Audience jwt.Audience `json:"aud"`
	Expiry   float64      `json:"exp"`
}

// sender identifies the sender of a request, and returns its key in base64url; empty: it says nothing of itself.
func (g *Gateway) sender(h http.Header, origins []string) (key string, err error) {
	auth := h.Get("Authorization")
	if auth == "" {
		return "", nil
	}
	if len(auth) > maxAuthorization {
		return "", badSender("Authorization is too long")
	}
	token, key := credential(auth, strings.Join(h["Crypto-Key"], ","))
	if token == "" || key == "" {
		return "", badSender("Authorization must be: vapid t=TOKEN, k=KEY")
	}
	if key, err = senderKey(key); err != nil {
		return "", badSender(err.Error())
	}
	now := g.cfg.Now()
	c, err := g.senders.claims(token, key, now)
	if err != nil {
		return "", err
	}
	left := time.Duration(min(c.Expiry-float64(now.Unix()), 1e9) * float64(time.Second))
	switch {
	case left <= -clockSkew:
		return "", badSender("the token has expired")
	case left > longestToken+clockSkew:
		return "", badSender("exp is more than 24 hours ahead")
	case !slices.ContainsFunc(c.Audience, func(aud string) bool { return slices.Contains(origins, normalOrigin(aud)) }):
		return "", badSender("aud must be the origin of the push endpoint, " + origins[0])
	}
	return key, nil
}

// credential takes token and key out of an Authorization header: vapid t=TOKEN, k=KEY, or as before RFC 8292 WebPush TOKEN, with p256ecdsa=KEY in
// Crypto-Key.
func credential(auth, cryptoKey string) (token, key string) {
	scheme, rest, _ := strings.Cut(auth, " ")
	switch strings.ToLower(scheme) {
	case "vapid":
		token, _ = parameter(rest, "t")
		key, _ = parameter(rest, "k")
	case "webpush", "bearer":
		token = strings.TrimSpace(rest)
		key, _ = parameter(cryptoKey, "p256ecdsa")
	}
	return token, key
}

// claims verifies the signature of a token, unless it has done so lately.
func (s *senders) claims(token, key string, now time.Time) (c claims, err error) {
	name := sha256.Sum256([]byte(key + "\n" + token))
	s.mu.Lock()
	c, known := s.verified[name]
	s.mu.Unlock()
	if known {
		return c, nil
	}
	if c, err = verify(token, key); err != nil {
		return c, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verified == nil {
		s.verified = make(map[[sha256.Size]byte]claims)
	}
	if len(s.verified) >= maxVerified {
		s.forget(now)
	}
	s.verified[name] = c
	return c, nil
}

// forget drops the tokens that have expired, or else any: their next use verifies them again.
func (s *senders) forget(now time.Time) {
	const enough = maxVerified / 2
	for name, c := range s.verified {
		if c.Expiry < float64(now.Unix()) {
			delete(s.verified, name)
		}
	}
	for name := range s.verified {
		if len(s.verified) <= enough {
			return
		}
		delete(s.verified, name)
	}
}

// verify checks the signature of a token by ES256, the only algorithm of VAPID.
func verify(token, key string) (c claims, err error) {
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return c, badSender(errKey.Error())
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return c, badSender(errKey.Error())
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return c, badSender("the token is no JWT with ES256")
	}
	payload, err := jws.Verify(public)
	if err != nil {
		return c, badSender("the signature of the token is not by its key")
	}
	if err := json.Unmarshal(payload, &c); err != nil || c.Expiry <= 0 || len(c.Audience) == 0 {
		return c, badSender("the token needs aud and exp")
	}
	return c, nil
}

// normalOrigin is an origin without the slash that some senders add.
func normalOrigin(aud string) string { return strings.TrimSuffix(aud, "/") }
