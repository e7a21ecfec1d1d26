package inboxes

import (
	"errors"
	"net/http"
	"net/url"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// owner is whose inbox a call is about.
type owner struct {
	app, recipient string
	q              url.Values
}

// owner finds it: a client's own inbox, or the one that a back end names.
func (s *service) owner(c *call.Call, change bool, known ...string) (o owner, err error) {
	s.allowOrigin(c)
	if o.q, err = c.Params(append(known, "token", "recipient", "to")...); err != nil {
		return o, err
	}
	if s.store == nil {
		return o, errNone()
	}
	secret := access.Bearer(c.R.Header)
	if secret == "" {
		secret = o.q.Get("token")
	}
	if secret != "" {
		if key, err := s.access.Key(c.Ctx, secret); err == nil {
			return s.named(c, o, key, change)
		}
	}
	if o.q.Has("to") {
		return o, problem.Unauthenticated.With("to names a recipient for a back end, which needs a key; a client's token names its own")
	}
	client, err := s.access.Client(c.Ctx, access.Claim{
		App: o.q.Get("app"), Token: secret, Recipient: o.q.Get("recipient"), CertURI: access.CertURI(c.R.TLS), Origin: c.R.Header.Get("Origin"), Host: c.R.Host,
	})
	switch {
	case errors.Is(err, access.ErrUnknownApp) && o.q.Get("app") == "" || errors.Is(err, access.ErrUnauthenticated):
		return o, problem.Unauthenticated.With("the client's token, or the key, is missing, wrong or expired")
	case errors.Is(err, access.ErrForbidden):
		return o, problem.Forbidden.With("the token is for another recipient or app, or the page's origin is not on the app's list")
	case err != nil:
		return o, err
	case change && client.Peek:
		return o, problem.Forbidden.With("this key may only observe, not mark")
	}
	o.app, o.recipient = client.App, client.Recipient
	return o, notification.CheckName("recipient", o.recipient)
}

// named is the inbox that a back end's key names.
func (s *service) named(c *call.Call, o owner, key access.Principal, change bool) (owner, error) {
	c.Key = key
	need := access.Read
	if change {
		need = access.Publish
	}
	to, field := o.q.Get("to"), "to"
	if to == "" && o.q.Has("recipient") {
		to, field = o.q.Get("recipient"), "recipient"
	}
	switch app := o.q.Get("app"); {
	case app != "" && app != key.App:
		return o, call.OtherApp()
	case !key.Roles.Has(need):
		return o, call.NeedRole(need)
	}
	o.app, o.recipient = key.App, to
	return o, notification.CheckName(field, to)
}

// allowOrigin lets pages of the app read the answer.
func (s *service) allowOrigin(c *call.Call) bool {
	h := c.W.Header()
	h.Add("Vary", "Origin")
	origin := c.R.Header.Get("Origin")
	if origin == "" || !s.access.Origin(c.Query().Get("app"), origin, c.R.Host) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "ETag")
	return true
}

// preflight answers the preflight request (CORS) of a browser.
func (s *service) preflight(c *call.Call) error {
	if s.allowOrigin(c) {
		h := c.W.Header()
		h.Set("Access-Control-Allow-Methods", http.MethodGet+", "+http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-None-Match")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.NoContent()
}
