package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/guard"
)

// subscription is where a message goes and for whom it is encrypted, as a browser's PushSubscription says it.
type subscription struct {
	endpoint *url.URL
	origin   string
	public   *ecdh.PublicKey
	p256dh   []byte
	auth     []byte
}

const (
	maxEndpoint = 2048 // the longest known are below 800 bytes
	authBytes   = 16
)

func parseAddress(address json.RawMessage, allowPrivate bool) (*subscription, error) {
	var raw struct {
		Endpoint string `json:"endpoint"`
		Keys     struct {
			P256dh string `json:"p256dh"`
			Auth   string `json:"auth"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(address, &raw); err != nil {
		return nil, errors.New("address is not a push subscription")
	}
	s := &subscription{}
	var err error
	if s.endpoint, s.origin, err = parseEndpoint(raw.Endpoint, allowPrivate); err != nil {
		return nil, err
	}
	if s.p256dh, err = DecodeKey(raw.Keys.P256dh); err != nil {
		return nil, errors.New("keys.p256dh is not base64url")
	}
	if s.public, err = ecdh.P256().NewPublicKey(s.p256dh); err != nil {
		return nil, errors.New("keys.p256dh is not a point on P-256")
	}
	if s.auth, err = DecodeKey(raw.Keys.Auth); err != nil || len(s.auth) != authBytes {
		return nil, fmt.Errorf("keys.auth is not %d bytes of base64url", authBytes)
	}
	return s, nil
}

// parseEndpoint checks a push resource's URL and finds its origin (RFC 6454), the aud of VAPID.
func parseEndpoint(endpoint string, allowPrivate bool) (u *url.URL, origin string, err error) {
	if len(endpoint) > maxEndpoint {
		return nil, "", fmt.Errorf("endpoint has more than %d bytes", maxEndpoint)
	}
	if err := guard.CheckURL(endpoint, allowPrivate); err != nil {
		return nil, "", fmt.Errorf("endpoint %w", err)
	}
	if u, err = url.Parse(endpoint); err != nil {
		return nil, "", errors.New("endpoint is not a URL")
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	return u, u.Scheme + "://" + host, nil
}

// DecodeKey reads base64url as browsers and libraries write it: with or without padding, some with the other alphabet.
func DecodeKey(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "+/") {
		return base64.RawStdEncoding.DecodeString(s)
	}
	return base64.RawURLEncoding.DecodeString(s)
}
