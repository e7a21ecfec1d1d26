package godwit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Token authenticates a recipient. Its claims contain the recipient's name.
type Token struct {
	Value   string
	Expires time.Time // zero: read from the token if it is a JWT, else unknown
}

// TokenSource returns a token that is valid now. Listen calls it at every connect, and again after nine tenths of a token's lifetime, so a
// source should return a new token or one that stays valid for a while.
type TokenSource func(ctx context.Context) (Token, error)

// StaticToken returns a source that always returns the same token.
func StaticToken(value string) TokenSource {
	return func(context.Context) (Token, error) { return Token{Value: value}, nil }
}

// expires returns when a token expires; zero: unknown. It does not verify the signature: the server does, and here the time only determines
// when to request the next token.
func (t Token) expires() time.Time {
	if !t.Expires.IsZero() {
		return t.Expires
	}
	parts := strings.Split(t.Value, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1e12 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// renewAt returns when to request the token after t; zero: never.
func (t Token) renewAt(now time.Time) time.Time {
	end := t.expires()
	if end.IsZero() || !end.After(now) {
		return time.Time{}
	}
	return now.Add(end.Sub(now) / 10 * 9)
}
