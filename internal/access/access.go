// Package access decides on permissions: it manages apps and their API keys, client tokens, certificates and origins.
package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Errors that callers distinguish; the text behind them is for logs, the sentinel for answers.
var (
	ErrUnauthenticated = errors.New("credentials are missing or not valid")
	ErrForbidden       = errors.New("not allowed")
	ErrUnknownApp      = errors.New("no such app")
	ErrUnavailable     = errors.New("credentials cannot be checked now") // introspection or JWKS did not answer
)

// Role is a set of rights of an API key.
type Role uint8

// Roles. Admin implies all, publish implies read: see Has.
const (
	Read Role = 1 << iota
	Publish
	Worker
	Admin
)

// Has reports whether r includes the needed role.
func (r Role) Has(need Role) bool {
	if r&Admin != 0 {
		return true
	}
	if r&Publish != 0 {
		r |= Read
	}
	return r&need == need
}

// Principal is a back end that showed an API key.
type Principal struct {
	App   string
	Key   string // the key's public id, never the secret
	Roles Role
}

// Claim is the identity that a client claims when it connects.
type Claim struct {
	App, Token, Recipient, Group, Device string
	CertURI                              string // URI SAN of a verified client certificate
	Origin, Host                         string // of a browser's request; Origin empty: not a browser
}

// Client is a client whose claim was verified.
type Client struct {
	App, Recipient, Group, Device string
	Topics, Objects, Serve        []string // allowed patterns; nil: none (objects: all); see Rights
	Expires                       time.Time
	GroupBound                    bool // the credential names the group: objects of other groups are forbidden
	Peek                          bool // may only observe: neither acks nor settles (an API key with role read)
}

// AskError says that this process lacks the data to verify a claim: a request to the app's own server is needed.
type AskError struct{ App string }

func (e *AskError) Error() string { return "the server of app " + e.App + " must be asked" }

// Access verifies.
type Access interface {
	// Key finds the app and roles of an API key ("Authorization: Bearer KEY").
	Key(ctx context.Context, secret string) (Principal, error)
	// Client verifies a claim. It may make a request to another server: never call it from a reactor loop.
	Client(ctx context.Context, c Claim) (Client, error)
	// Known is Client without a request to the app's server. It fails with *AskError where the facts in this process
	// are not enough.
	Known(c Claim) (Client, error)
	// Origin reports whether a browser page of this origin may connect to an app as a client of this host.
	Origin(app, origin, host string) bool
}

// Bearer returns the token of an Authorization header, or "".
func Bearer(h http.Header) string { return BearerOf(h.Get("Authorization")) }

// BearerOf returns the token in the value of an Authorization header, or "".
func BearerOf(v string) string {
	const prefix = "Bearer " // in any case: RFC 9110 section 11.1
	if len(v) > len(prefix) && strings.EqualFold(v[:len(prefix)], prefix) {
		return v[len(prefix):]
	}
	return ""
}
