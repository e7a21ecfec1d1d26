package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// subscription is the address of a message and the keys to encrypt it, in the form of a browser's PushSubscription.
type subscription struct {
	endpoint *url.URL
	origin   string
	own      bool // of this server's push service
	public   *ecdh.PublicKey
	p256dh   []byte
	auth     []byte
}

const (
	maxEndpoint = 2048 // in bytes; the longest known endpoints are below 800
	authBytes   = 16
)

func (s *Sender) parseAddress(address json.RawMessage) (*subscription, error) {
	endpoint, p256dh, auth, err := fields(address)
	if err != nil {
		return nil, err
	}
	to := &subscription{}
	if to.endpoint, to.origin, to.own, err = s.parseEndpoint(endpoint); err != nil {
		return nil, err
	}
	if to.p256dh, err = DecodeKey(p256dh); err != nil {
		return nil, errors.New("keys.p256dh is not base64url")
	}
	if to.public, err = ecdh.P256().NewPublicKey(to.p256dh); err != nil {
		return nil, errors.New("keys.p256dh is not a point on P-256")
	}
	if to.auth, err = DecodeKey(auth); err != nil || len(to.auth) != authBytes {
		return nil, fmt.Errorf("keys.auth is not %d bytes of base64url", authBytes)
	}
	return to, nil
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

// parseEndpoint checks a push resource's URL and returns it with its origin, which is the aud of VAPID. Endpoints of the server's own push service are
// not dialled, so they may be private.
func (s *Sender) parseEndpoint(endpoint string) (u *url.URL, origin string, own bool, err error) {
	if len(endpoint) > maxEndpoint {
		return nil, "", false, fmt.Errorf("endpoint has more than %d bytes", maxEndpoint)
	}
	if u, own = s.cfg.Own.find(endpoint); !own {
		if u, err = s.cfg.Targets.ParseURL(endpoint); err != nil {
			return nil, "", false, fmt.Errorf("endpoint %w", err)
		}
	}
	return u, originOf(u), own, nil
}

// originOf returns the origin of a URL: RFC 6454, section 6.2.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host
}

// DecodeKey reads base64url as browsers and libraries write it: with or without padding, and also in the standard base64 alphabet.
func DecodeKey(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "+/") {
		return base64.RawStdEncoding.DecodeString(s)
	}
	return base64.RawURLEncoding.DecodeString(s)
}
