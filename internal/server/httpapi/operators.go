package httpapi

import (
	"net/netip"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Operators recognises the operator key, and knows the apps.
type Operators interface {
	// Operator returns the public id of the operator key if secret is that key.
	Operator(secret string) (id string, ok bool)
	// App returns an app, or the only one if name is empty.
	App(name string) (access.App, error)
	Apps() []access.App
}

const (
	needsOperator   = "this call needs the operator key of the server, and this is the key of an app"
	unknownOperator = "this is not the operator key of this server, or not any more: the present one is in operator.key of the data folder of the node that made it"
	refusesOperator = "the operator key manages apps, keys and settings, and does nothing else: use an API key of the app"
)

// authenticateOperator admits the operator key. The calls of one address are limited before the key is compared.
func (a *api) authenticateOperator(c *call.Call, rt call.Route, secret string) error {
	from, _ := netip.ParseAddrPort(c.R.RemoteAddr) // an invalid address has no limit
	if !a.operatorLimit.Allow(from.Addr()) {
		return problem.RateLimited.With("there are too many calls with an operator key from this address").After(a.operatorLimit.RetryAfter(from.Addr()))
	}
	id, ok := a.operators.Operator(secret)
	if !ok {
		return problem.Unauthenticated.With(unknownOperator)
	}
	c.Key = access.Principal{Key: access.OperatorName(id), Operator: true}
	if rt.Operator == 0 {
		return problem.Forbidden.With(refusesOperator)
	}
	q := c.Query()
	named := q.Get("app")
	switch {
	case rt.Operator == call.ServerWide && q.Has("app"):
		return notification.BadField("app", "is not a known parameter")
	case q.Has("app") && named == "":
		return notification.BadField("app", "is empty: leave it out, or name an app")
	case rt.Operator == call.ServerWide, rt.Operator == call.AppOrAll && named == "":
		return nil
	}
	app, err := a.operators.App(named)
	if err != nil {
		return a.noApp(named, err)
	}
	c.Key.App, c.Key.Roles = app.Name, access.Admin
	return nil
}

// noApp explains why a call that names this app, or none, is about no app.
func (a *api) noApp(named string, err error) error {
	switch {
	case named != "":
		return err
	case len(a.operators.Apps()) == 0:
		return notification.BadField("app", "cannot be left out: there is no app yet, make one first")
	}
	return notification.BadField("app", "must name an app, since there is not exactly one")
}
