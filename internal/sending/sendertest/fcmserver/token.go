package fcmserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// AccessPrefix is the prefix of access tokens. They are secrets.
const AccessPrefix = "ya29."

const (
	grantType      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	messagingScope = "https://www.googleapis.com/auth/firebase.messaging"
	maxAge         = time.Hour       // longest lifetime of an assertion, from iat to exp
	maxSkew        = 5 * time.Minute // between the clocks
)

// TokenFault describes a failure of the token service.
type TokenFault struct {
	Status     int // 0: no fault
	Body       string
	RetryAfter time.Duration
	Hang       bool // never answers
}

// TokenFails makes the token service fail; the zero value: it works.
func (s *Server) TokenFails(f TokenFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// serveToken exchanges an assertion for an access token (RFC 7523).
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault.Hang {
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
		return
	}
	if fault.Status != 0 {
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(fault.RetryAfter/time.Second)))
		}
		w.WriteHeader(fault.Status)
		_, _ = w.Write([]byte(fault.Body))
		return
	}
	if err := s.verify(r); err != nil {
		s.problem("assertion: " + err.Error())
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": err.Error()})
		return
	}
	access := AccessPrefix + rand.Text()
	s.mu.Lock()
	s.access[access] = true
	s.given++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "expires_in": int(s.opts.Life / time.Second), "token_type": "Bearer"})
}

// verify checks an assertion: issuer, signature, audience, scope, and its times.
func (s *Server) verify(r *http.Request) error {
	if got := r.PostFormValue("grant_type"); got != grantType {
		return fmt.Errorf("grant_type %q", got)
	}
	signed, err := jwt.ParseSigned(r.PostFormValue("assertion"), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return fmt.Errorf("not a JWT signed by RS256: %w", err)
	}
	if kid := signed.Headers[0].KeyID; kid != "key-1" {
		return fmt.Errorf("kid %q", kid)
	}
	var c struct {
		Issuer   string `json:"iss"`
		Scope    string `json:"scope"`
		Audience string `json:"aud"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}
	if err := signed.Claims(&s.key.PublicKey, &c); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	issued, expires, now := time.Unix(c.Issued, 0), time.Unix(c.Expires, 0), time.Now()
	switch {
	case c.Issuer != Email:
		return fmt.Errorf("iss %q", c.Issuer)
	case c.Audience != s.URL+"/token":
		return fmt.Errorf("aud %q", c.Audience)
	case strings.TrimSpace(c.Scope) != messagingScope:
		return fmt.Errorf("scope %q", c.Scope)
	case issued.After(now.Add(maxSkew)) || !expires.After(now) || expires.Sub(issued) > maxAge:
		return fmt.Errorf("valid from %s to %s, which is not now, or more than an hour", issued, expires)
	}
	return nil
}
