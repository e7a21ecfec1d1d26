package godwit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Token authenticates a recipient, whose name is in its claims.
type Token struct {
	Value   string
	Expires time.Time // zero: read from the token if it is a JWT, else unknown
}

// TokenSource returns a token that is valid now. Listen asks for one at every connect, and again when nine tenths of
// a token's life are over, so a source should make a new one or return one that lives for a while.
type TokenSource func(ctx context.Context) (Token, error)

// StaticToken is a source of one token.
func StaticToken(value string) TokenSource {
	return func(context.Context) (Token, error) { return Token{Value: value}, nil }
}

// expires returns when a token ends; zero: unknown. The signature is not checked: the server does that, and here the
// time is only used to request the next token.
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

// renewAt is when to request the token after t; zero: never.
func (t Token) renewAt(now time.Time) time.Time {
	end := t.expires()
	if end.IsZero() || !end.After(now) {
		return time.Time{}
	}
	return now.Add(end.Sub(now) / 10 * 9)
}
