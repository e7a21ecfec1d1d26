package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/access/urlguard"
)

// subscription is the address of a message and the keys to encrypt it, in the form of a browser's PushSubscription.
type subscription struct {
	endpoint *url.URL
	origin   string
	public   *ecdh.PublicKey
	p256dh   []byte
	auth     []byte
}

const (
	maxEndpoint = 2048 // in bytes; the longest known endpoints are below 800
	authBytes   = 16
)

func parseAddress(address json.RawMessage, targets urlguard.Targets) (*subscription, error) {
	endpoint, p256dh, auth, err := fields(address)
	if err != nil {
		return nil, err
	}
	s := &subscription{}
	if s.endpoint, s.origin, err = parseEndpoint(endpoint, targets); err != nil {
		return nil, err
	}
	if s.p256dh, err = DecodeKey(p256dh); err != nil {
		return nil, errors.New("keys.p256dh is not base64url")
	}
	if s.public, err = ecdh.P256().NewPublicKey(s.p256dh); err != nil {
		return nil, errors.New("keys.p256dh is not a point on P-256")
	}
	if s.auth, err = DecodeKey(auth); err != nil || len(s.auth) != authBytes {
		return nil, fmt.Errorf("keys.auth is not %d bytes of base64url", authBytes)
	}
	return s, nil
}

// fields splits an address. Stored addresses have one form, which needs no full JSON parser; other forms are parsed as JSON.
func fields(address json.RawMessage) (endpoint, p256dh, auth string, err error) {
	text := string(address)
	if rest, ok := strings.CutPrefix(text, `{"endpoint":"`); ok && !strings.Contains(rest, `\`) {
		endpoint, rest, _ = strings.Cut(rest, `","keys":{"p256dh":"`)
		p256dh, rest, _ = strings.Cut(rest, `","auth":"`)
		if auth, ok = strings.CutSuffix(rest, `"}}`); ok && !strings.Contains(endpoint, `"`) && !strings.Contains(p256dh, `"`) && !strings.Contains(auth, `"`) {
			return endpoint, p256dh, auth, nil
		}
	}
	var raw struct {
		Endpoint string `json:"endpoint"`
		Keys     struct {
			P256dh string `json:"p256dh"`
			Auth   string `json:"auth"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(address, &raw); err != nil {
		return "", "", "", errors.New("address is not a push subscription")
	}
	return raw.Endpoint, raw.Keys.P256dh, raw.Keys.Auth, nil
}

// parseEndpoint checks a push resource's URL and returns it with its origin (RFC 6454), which is the aud of VAPID.
func parseEndpoint(endpoint string, targets urlguard.Targets) (u *url.URL, origin string, err error) {
	if len(endpoint) > maxEndpoint {
		return nil, "", fmt.Errorf("endpoint has more than %d bytes", maxEndpoint)
	}
	if u, err = targets.ParseURL(endpoint); err != nil {
		return nil, "", fmt.Errorf("endpoint %w", err)
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	return u, u.Scheme + "://" + host, nil
}

// DecodeKey reads base64url as browsers and libraries write it: with or without padding, and also in the standard base64 alphabet.
func DecodeKey(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "+/") {
		return base64.RawStdEncoding.DecodeString(s)
	}
	return base64.RawURLEncoding.DecodeString(s)
}
