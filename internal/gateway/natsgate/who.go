package natsgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"godwit.dev/godwit/internal/access"
)

// said holds the fields of a client's CONNECT that natsgate and the server use.
type said struct {
	User     string `json:"user,omitempty"`
	Password string `json:"pass,omitempty"`
	Token    string `json:"auth_token,omitempty"`

	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	Echo         *bool  `json:"echo,omitempty"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
	Protocol     int    `json:"protocol"`
	Name         string `json:"name,omitempty"`
	Lang         string `json:"lang,omitempty"`
	Version      string `json:"version,omitempty"`
}

// maxText is the most characters of a client's name and language.
const maxText = 128

func readSaid(line []byte) (said, error) {
	var s said
	if err := json.Unmarshal(line, &s); err != nil {
		return said{}, fmt.Errorf("%w: CONNECT is not JSON", access.ErrUnauthenticated)
	}
	for _, text := range []*string{&s.Name, &s.Lang, &s.Version} {
		if len(*text) > maxText {
			*text = ""
		}
	}
	return s, nil
}

// who is a client that was accepted.
type who struct {
	app     string
	as      string // a key's id or a recipient
	rights  access.Rights
	all     bool // an admin's key: allows everything within its app
	expires time.Time

	principal access.Principal // of a key
	claim     access.Claim     // of a client
}

// errCertificate says that a certificate alone is not enough in this app: it names a recipient, which gives a right to a mailbox and
// objects, and a NATS connection has neither.
var errCertificate = fmt.Errorf("%w: a client certificate alone gives no right to topics and requests in this app (godwit app set NAME --certificate-topic gives some); connect with a key or a token as well", access.ErrForbidden)

// identify authenticates the client of a connection. An API key may be the token, or the password of a user whose name is the app; the same
// holds for a client's token. A client certificate needs neither if the app gives its certificates topics or subjects.
func identify(ctx context.Context, a Access, s said, cert string) (*who, error) {
	secret := s.Token
	if secret == "" {
		secret = s.Password
	}
	if p, err := a.Key(ctx, secret); err == nil {
		if s.User != "" && s.User != p.App {
			return nil, fmt.Errorf("%w: the key belongs to another app", access.ErrForbidden)
		}
		return &who{app: p.App, as: p.Key, rights: p.Rights(), all: p.Roles.Has(access.Admin), principal: p, claim: access.Claim{Token: secret}}, nil
	}
	if secret == "" && cert == "" {
		return nil, fmt.Errorf("%w: a key or token is required", access.ErrUnauthenticated)
	}
	claim := access.Claim{App: s.User, Token: secret, CertURI: cert}
	c, err := a.Client(ctx, claim)
	if err != nil {
		return nil, err
	}
	if secret == "" && len(c.Topics) == 0 && len(c.Serve) == 0 {
		return nil, errCertificate
	}
	return &who{app: c.App, as: c.Recipient, rights: c.Rights(), expires: c.Expires, claim: claim}, nil
}

// still reports whether a client has exactly the rights that it had when it connected.
func (w *who) still(ctx context.Context, a Access) bool {
	if w.principal.Key != "" {
		p, err := a.Key(ctx, w.claim.Token)
		return err == nil && p == w.principal
	}
	c, err := a.Known(w.claim)
	if _, unasked := errors.AsType[*access.AskError](err); unasked {
		return true // an app's own authentication server is queried at its own intervals, so its answers have not changed
	}
	return err == nil && c.App == w.app && reflect.DeepEqual(c.Rights(), w.rights)
}
