package access

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"godwit.dev/godwit/internal/notify/notification"
)

// MaxTokenTTL is the maximum lifetime of a token signed here: it cannot be revoked except by replacing the app's key.
const MaxTokenTTL = 10 * 365 * 24 * time.Hour

// TokenRequest describes the client for which a token is signed.
type TokenRequest struct {
	Recipient, Group, Device string
	Topics, Objects, Serve   []string // nil: no such claim
	Publish                  []string // nil: no such claim
	TTL                      time.Duration
}

func (req *TokenRequest) check() error {
	if req.TTL < time.Second || req.TTL > MaxTokenTTL {
		return notification.BadField("ttl", "must be between 1s and %d days", int(MaxTokenTTL/(24*time.Hour)))
	}
	for _, f := range []struct{ field, value string }{{"recipient", req.Recipient}, {"group", req.Group}, {"device", req.Device}} {
		if f.value == "" && f.field != "recipient" {
			continue
		}
		if err := notification.CheckName(f.field, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		field string
		list  []string
	}{{"topics", req.Topics}, {"objects", req.Objects}, {"serve", req.Serve}, {"publish", req.Publish}} {
		if problem := patternProblem(f.list); problem != "" {
			return notification.BadField(f.field, "%s", problem)
		}
	}
	return nil
}

// MintToken signs a client token with the HS256 key created with the app. An empty app means the only one.
func (r *Registry) MintToken(app string, req TokenRequest) (text string, expires time.Time, err error) {
	a, err := r.App(app)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := req.check(); err != nil {
		return "", time.Time{}, err
	}
	key, ok := a.mintKey()
	if !ok {
		return "", time.Time{}, fmt.Errorf("app %s has no key to sign tokens with", a.Name)
	}
	now := time.Now()
	expires = now.Add(req.TTL).Truncate(time.Second)
	c := mintedClaims{
		Subject: req.Recipient, App: a.Name, Group: req.Group, Device: req.Device, Issuer: a.Issuer, Audience: a.Audience,
		Topics: req.Topics, Objects: req.Objects, Serve: req.Serve, Publish: req.Publish,
		IssuedAt: *jwt.NewNumericDate(now), Expiry: *jwt.NewNumericDate(expires),
	}
	text, err = sign(key, c)
	return text, expires, err
}

type mintedClaims struct {
	Subject  string          `json:"sub"`
	App      string          `json:"app"`
	Group    string          `json:"grp,omitempty"`
	Device   string          `json:"dev,omitempty"`
	Issuer   string          `json:"iss,omitempty"`
	Audience string          `json:"aud,omitempty"`
	Topics   []string        `json:"topics,omitzero"`
	Objects  []string        `json:"objects,omitzero"`
	Serve    []string        `json:"serve,omitzero"`
	Publish  []string        `json:"publish,omitzero"`
	IssuedAt jwt.NumericDate `json:"iat"`
	Expiry   jwt.NumericDate `json:"exp"`
}

func sign(key JWTKey, c mintedClaims) (string, error) {
	opts := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", key.ID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key.material}, opts)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	return text, nil
}
