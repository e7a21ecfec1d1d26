// Package sealed makes the tokens that travel with messages and come back from their receivers: they name the message and prove
// that this server, or another one on its database, made them.
//
// A token is its app, a tilde, and in base64url: one byte for its purpose, its content, and 16 bytes of HMAC-SHA256 of both
// under the app's secret. So a token for one purpose is not valid for another.
package sealed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
)

// Purpose is what a token is for. The numbers are in tokens that are under way: append, never renumber.
type Purpose byte

// Purposes.
const (
	Track       Purpose = iota + 1 // to report a receiver's reaction to a campaign's message
	Acknowledge                    // to acknowledge a notification
	Press                          // to report that a button below a message was pressed
)

const (
	macBytes = 16
	// shortMAC is enough where each guess has to pass a chat service that limits its rate.
	shortMAC = 8
	// MaxToken limits a token's length, in bytes: an app's name has at most 128 bytes, and the content at most 60.
	MaxToken = 256
	// separator ends the app's name. The app's secret is needed to read the rest. App names contain no tilde.
	separator = "~"
)

// ErrBad says that this server did not make the token, or made it for another purpose.
var ErrBad = errors.New("the token is not valid")

// Secrets stores the secret of each app.
type Secrets interface {
	// TrackKey returns an app's secret, made on first use.
	TrackKey(ctx context.Context, app string) ([]byte, error)
}

// Tokens makes and opens tokens.
type Tokens struct {
	secrets Secrets
	known   func(app string) bool
	keys    sync.Map // app → its Key
}

// New makes Tokens. known reports whether an app exists, so that strangers cannot cause secrets to be made; nil: every name counts as an
// app.
func New(secrets Secrets, known func(app string) bool) *Tokens {
	return &Tokens{secrets: secrets, known: known}
}

// Key seals the tokens of one app.
type Key struct {
	app    string
	secret []byte
}

// Key returns an app's key.
func (t *Tokens) Key(ctx context.Context, app string) (Key, error) {
	if k, ok := t.keys.Load(app); ok {
		return k.(Key), nil
	}
	secret, err := t.secrets.TrackKey(ctx, app)
	if err != nil {
		return Key{}, err
	}
	k := Key{app, secret}
	t.keys.Store(app, k)
	return k, nil
}

// Seal makes a token with the content says. To open it, bound must be presented as well, such as the target of a link; empty: nothing.
func (k Key) Seal(p Purpose, says []byte, bound string) string {
	b := append(make([]byte, 0, 1+len(says)+macBytes), byte(p))
	b = append(b, says...)
	return k.app + separator + base64.RawURLEncoding.EncodeToString(append(b, k.mac(b, bound)...))
}

func (k Key) mac(payload []byte, bound string) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write(payload)
	h.Write([]byte{0})
	h.Write([]byte(bound))
	return h.Sum(nil)[:macBytes]
}

// Open checks a token and returns its app and its content. ErrBad: it is not valid, or not for this purpose.
func (t *Tokens) Open(ctx context.Context, token string, p Purpose, bound string) (app string, says []byte, err error) {
	app, sealed, ok := strings.Cut(token, separator)
	if !ok || len(token) > MaxToken || len(sealed) < base64.RawURLEncoding.EncodedLen(1+macBytes) {
		return "", nil, ErrBad
	}
	if _, made := t.keys.Load(app); !made && t.known != nil && !t.known(app) {
		return "", nil, ErrBad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || Purpose(b[0]) != p {
		return "", nil, ErrBad
	}
	k, err := t.Key(ctx, app)
	if err != nil {
		return "", nil, err
	}
	payload, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if subtle.ConstantTimeCompare(mac, k.mac(payload, bound)) != 1 {
		return "", nil, ErrBad
	}
	return app, payload[1:], nil
}

// Short makes a token for places with few bytes: without its app, and with 8 bytes of the HMAC.
func (k Key) Short(p Purpose, says []byte, bound string) string {
	b := append([]byte{byte(p)}, says...)
	return base64.RawURLEncoding.EncodeToString(append(b[1:], k.mac(b, bound)[:shortMAC]...))
}

// OpenShort is Open for an app's token that Short made.
func (t *Tokens) OpenShort(ctx context.Context, app, token string, p Purpose, bound string) (says []byte, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < shortMAC {
		return nil, ErrBad
	}
	k, err := t.Key(ctx, app)
	if err != nil {
		return nil, err
	}
	says, mac := b[:len(b)-shortMAC], b[len(b)-shortMAC:]
	if subtle.ConstantTimeCompare(mac, k.mac(append([]byte{byte(p)}, says...), bound)[:shortMAC]) != 1 {
		return nil, ErrBad
	}
	return says, nil
}
