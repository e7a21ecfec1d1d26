// Package access decides on permissions: it manages apps and their API keys, client tokens, certificates and origins.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Errors that callers distinguish: the sentinel decides the answer, the wrapping text is for logs.
var (
	ErrUnauthenticated = errors.New("credentials are missing or not valid")
	ErrForbidden       = errors.New("not allowed")
	ErrUnknownApp      = errors.New("no such app")
	ErrUnavailable     = errors.New("credentials cannot be checked now") // the introspection or JWKS server did not answer
)

// ErrErasing means that a new app is not served yet, since the data of a deleted app of its name is still being erased.
var ErrErasing = fmt.Errorf("%w: the data of a deleted app of this name is still being erased", ErrUnavailable)

// Role is a set of an API key's rights.
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

// Principal is a back end that has presented an API key.
type Principal struct {
	App   string
	Key   string // the key's public id, never the secret
	Roles Role
	// Operator: the caller presented the operator key, and named the app; an empty App is the whole server.
	Operator bool
}

// Claim is the identity that a client claims when it connects.
type Claim struct {
	App, Token, Recipient, Group, Device string
	CertURI                              string // URI SAN of a verified client certificate
	Origin, Host                         string // from a browser's request; Origin empty: the client is not a browser
}

// Client is a client whose claim was verified.
type Client struct {
	App, Recipient, Group, Device string
	Topics, Objects, Serve        []string // allowed patterns; nil: none, but for Objects: all; see Rights
	Publish                       []string // patterns that clients of MQTT may publish to; nil: none
	Key                           string   // public id of the API key that was the credential; empty: it was none
	Expires                       time.Time
	GroupBound                    bool // the credential names the group: objects of other groups are forbidden
	Peek                          bool // may only observe, without acknowledging or settling (an API key with role read)
}

// AskError means that this process lacks the data to verify a claim: only a request to the app's own server can.
type AskError struct{ App string }

func (e *AskError) Error() string { return "the server of app " + e.App + " must be asked" }

// Access verifies.
type Access interface {
	// Key finds the app and roles of an API key ("Authorization: Bearer KEY").
	Key(ctx context.Context, secret string) (Principal, error)
	// Client verifies a claim. It may make a request to another server: never call it from a reactor loop.
	Client(ctx context.Context, c Claim) (Client, error)
	// Known is Client without a request to the app's server. It fails with *AskError if this process does not have enough data.
	Known(c Claim) (Client, error)
	// Origin reports whether a browser page of this origin may connect to an app as a client of this host.
	Origin(app, origin, host string) bool
}

// Bearer returns the token of an Authorization header, or "".
func Bearer(h http.Header) string { return BearerOf(h.Get("Authorization")) }

// BearerOf returns the token in the value of an Authorization header, or "".
func BearerOf(v string) string {
	const prefix = "Bearer " // case-insensitive: RFC 9110 section 11.1
	if len(v) > len(prefix) && strings.EqualFold(v[:len(prefix)], prefix) {
		return v[len(prefix):]
	}
	return ""
}
