package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // strict about names: "SUB" is not "sub", and duplicates are errors
	"github.com/go-jose/go-jose/v4/jwt"

	"godwit.dev/godwit/internal/notify/notification"
)

const (
	maxTokenBytes = 16 << 10         // larger tokens do not fit in headers anyway
	clockSkew     = 60 * time.Second // tolerance for nbf and iat; exp has none, because the session ends at it
	maxPatterns   = 64               // limit per claim and for certificates, because sessions store the patterns
	maxPattern    = 256              // bytes
	endOfTime     = 253402300799     // 9999-12-31: later times would overflow in time.Time
)

// errNoKey: no key of the app fits the token's algorithm and key id, so introspection may be tried.
var errNoKey = fmt.Errorf("%w: no key of the app fits the token", ErrUnauthenticated)

// claims are the claims of a token, or of an introspection answer.
type claims struct {
	jwt.Claims
	App     string   `json:"app"`
	Group   string   `json:"grp"`
	Device  string   `json:"dev"`
	Topics  []string `json:"topics"`
	Objects []string `json:"objects"`
	Serve   []string `json:"serve"`
	Publish []string `json:"publish"`
}

// token is a JWT that is not verified yet.
type token struct {
	jws    *jose.JSONWebSignature
	header jose.Header
}

// parseToken parses a token if it looks like a JWT. It rejects algorithms outside the list, "none" above all.
func parseToken(s string) (*token, bool) {
	if strings.Count(s, ".") != 2 {
		return nil, false
	}
	jws, err := jose.ParseSignedCompact(s, algorithms)
	if err != nil {
		return nil, false
	}
	return &token{jws, jws.Signatures[0].Protected}, true
}

// unverifiedApp returns the token's app claim. Use it only to choose keys.
func (t *token) unverifiedApp() string {
	var c struct {
		App string `json:"app"`
	}
	if json.Unmarshal(t.jws.UnsafePayloadWithoutVerification(), &c) != nil {
		return ""
	}
	return c.App
}

// fits reports whether a key may verify the token: the algorithms match, and so do the key ids if both have one.
func (t *token) fits(k JWTKey) bool {
	return k.Algorithm == t.header.Algorithm && (k.ID == "" || t.header.KeyID == "" || k.ID == t.header.KeyID)
}

// verifyWith verifies with the keys that fit; tried reports whether any key fitted.
func (t *token) verifyWith(keys []JWTKey) (payload []byte, tried, ok bool) {
	for _, k := range keys {
		if !t.fits(k) {
			continue
		}
		tried = true
		if payload, err := t.jws.Verify(k.material); err == nil {
			return payload, true, true
		}
	}
	return nil, tried, false
}

// verifyJWT verifies a token with the app's static keys and then with the keys of its JWKS URL, which are fetched only if ask is true.
func (r *Registry) verifyJWT(app *App, t *token, now time.Time, ask bool) (identity, error) {
	payload, tried, ok := t.verifyWith(app.JWTKeys)
	shared := false
	if !ok && app.JWKSURL != "" && t.header.Algorithm != string(jose.HS256) {
		keys, err := r.jwks.keys(r.life, jwksID{app.Name, app.JWKSURL}, t.header.KeyID, now, ask)
		if _, unasked := errors.AsType[*AskError](err); unasked || err != nil && !tried {
			return identity{}, err
		}
		var triedHere bool
		payload, triedHere, ok = t.verifyWith(keys)
		tried, shared = tried || triedHere, true
	}
	switch {
	case !tried:
		return identity{}, errNoKey
	case !ok:
		return identity{}, fmt.Errorf("%w: the token's signature is not valid", ErrUnauthenticated)
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return identity{}, fmt.Errorf("%w: the token's claims cannot be read", ErrUnauthenticated)
	}
	if c.Expiry == nil {
		return identity{}, fmt.Errorf("%w: the token has no exp", ErrUnauthenticated)
	}
	// An issuer's keys may also sign tokens for others, so the token must name this app.
	if shared && c.App == "" && app.Audience == "" {
		return identity{}, fmt.Errorf("%w: the token names no app", ErrUnauthenticated)
	}
	return c.identity(app, now)
}

// identity validates verified claims and returns the identity in them.
func (c *claims) identity(app *App, now time.Time) (identity, error) {
	expect := jwt.Expected{Issuer: app.Issuer, Time: now}
	if app.Audience != "" {
		expect.AnyAudience = jwt.Audience{app.Audience}
	}
	if err := c.ValidateWithLeeway(expect, clockSkew); err != nil {
		return identity{}, fmt.Errorf("%w: %s", ErrUnauthenticated, claimProblem(err))
	}
	if c.App != "" && c.App != app.Name {
		return identity{}, fmt.Errorf("%w: the token is for another app", ErrUnauthenticated)
	}
	id := identity{
		App: app.Name, Recipient: c.Subject, Group: c.Group, Device: c.Device,
		Topics: c.Topics, Objects: c.Objects, Serve: c.Serve, Publish: c.Publish,
	}
	if c.Expiry != nil {
		end := min(*c.Expiry, endOfTime)
		id.Expires = end.Time()
		if !now.Before(id.Expires) {
			return identity{}, fmt.Errorf("%w: the token has expired", ErrUnauthenticated)
		}
	}
	return id, id.check()
}

func claimProblem(err error) string {
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "the token's iss is not the app's issuer"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "the token's aud is not the app's audience"
	case errors.Is(err, jwt.ErrExpired):
		return "the token has expired"
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return "the token is not valid yet"
	}
	return "the token's claims are not valid"
}

// check validates names and patterns, because other software creates the tokens.
func (id *identity) check() error {
	for _, f := range []struct{ field, value string }{{"sub", id.Recipient}, {"grp", id.Group}, {"dev", id.Device}} {
		if f.value == "" && f.field != "sub" {
			continue
		}
		if notification.CheckName(f.field, f.value) != nil {
			return fmt.Errorf("%w: the token's %s is not a valid name", ErrUnauthenticated, f.field)
		}
	}
	for _, list := range [][]string{id.Topics, id.Objects, id.Serve, id.Publish} {
		if problem := patternProblem(list); problem != "" {
			return fmt.Errorf("%w: a pattern list of the token %s", ErrUnauthenticated, problem)
		}
	}
	return nil
}

func patternProblem(list []string) string {
	if len(list) > maxPatterns {
		return fmt.Sprintf("has %d patterns; at most %d are allowed", len(list), maxPatterns)
	}
	for _, p := range list {
		if p == "" || len(p) > maxPattern || strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			return fmt.Sprintf("has a pattern that is empty, longer than %d bytes, or not printable", maxPattern)
		}
	}
	return ""
}
