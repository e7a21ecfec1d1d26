package public

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
	"godwit.dev/godwit/internal/server/problem"
)

// holder is the caller of an endpoints route, with the roles of a back end's key.
type holder struct {
	endpoint.Holder
	roles access.Role
}

// holder identifies the caller: a back end with a key, a client with a token, the holder of a manage token, or an
// unknown one.
func (a *API) holder(c *call.Call, q url.Values) (h holder, err error) {
	secret := access.Bearer(c.R.Header)
	if secret == "" {
		secret = q.Get("token")
	}
	switch {
	case audience.IsToken(secret):
		app, err := a.Apps.App(q.Get("app"))
		return holder{Holder: endpoint.Holder{App: app.Name, Token: secret}}, err
	case secret != "":
		if key, err := a.Access.Key(c.Ctx, secret); err == nil {
			if app := q.Get("app"); app != "" && app != key.App {
				return h, call.OtherApp()
			}
			c.Key = key
			return holder{endpoint.Holder{App: key.App, BackEnd: true, Admin: key.Roles.Has(access.Admin)}, key.Roles}, nil
		}
	case q.Get("recipient") == "" && access.CertURI(c.R.TLS) == "":
		return h, nil
	}
	client, err := a.Access.Client(c.Ctx, access.Claim{
		App: q.Get("app"), Token: secret, Recipient: q.Get("recipient"), CertURI: access.CertURI(c.R.TLS),
		Origin: c.R.Header.Get("Origin"), Host: c.R.Host,
	})
	switch {
	case errors.Is(err, access.ErrUnknownApp) && q.Get("app") == "":
		return h, access.ErrUnauthenticated // neither a key nor a valid token
	case err != nil:
		return h, clientRefused(err)
	}
	return holder{Holder: endpoint.Holder{App: client.App, Recipient: client.Recipient, Objects: client.Objects}}, nil
}

// RegisterEndpoint is POST /v1/endpoints. Registering again renews the endpoint, so a retry needs no Idempotency-Key. A back end that sends
// one gets an error if it used the key for something else.
func (a *API) RegisterEndpoint(c *call.Call) (err error) {
	a.allowPage(c)
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	q, err := c.Params("token", "recipient")
	if err != nil {
		return err
	}
	h, err := a.holder(c, q)
	switch {
	case err != nil:
		return err
	case h.Token != "":
		return problem.Forbidden.With("a manage token changes its endpoint with PATCH; it cannot register others")
	case h.BackEnd && !h.roles.Has(access.Publish):
		return call.NeedRole(access.Publish)
	case h.Visitor():
		if h.App, err = a.signup(c, q.Get("app")); err != nil {
			return err
		}
	}
	body, err := call.ReadBody(c.R, nil, form.MaxEndpoint)
	if err != nil {
		return err
	}
	if idem != "" && h.BackEnd {
		undo, used := a.registered.Use(h.App, idem, body, time.Now())
		if used != nil {
			return used
		}
		defer func() {
			if err != nil {
				undo()
			}
		}()
	}
	return a.register(c, &h, body)
}

func (a *API) register(c *call.Call, h *holder, body []byte) error {
	e, err := form.Registration(body)
	if err != nil {
		return err
	}
	reg, err := a.Endpoints.Registration(&h.Holder, e)
	if err != nil {
		return err
	}
	done, token, err := a.Endpoints.RegisterOne(c.Ctx, h.App, reg)
	if err != nil {
		return err
	}
	answer := struct {
		ID          string   `json:"id"`
		Created     bool     `json:"created"`
		ManageToken *string  `json:"manage_token,omitempty"`
		Warnings    []string `json:"warnings,omitempty"`
	}{ID: done.Endpoint.ID.String(), Created: done.Created, Warnings: reg.Dropped}
	if token != "" {
		answer.ManageToken = &token
	}
	return c.Value(registeredStatus(done.Created), answer)
}

func registeredStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// signup admits a visitor without a token: the app must allow that, and the page must belong to the app.
func (a *API) signup(c *call.Call, app string) (name string, err error) {
	name, allowed := a.Apps.Anonymous(app, c.R.Header.Get("Origin"))
	if name == "" {
		if _, err := a.Apps.App(app); err != nil {
			return "", err
		}
	}
	if !allowed {
		return "", problem.Forbidden.With("send an API key or a client's token; without one this app takes registrations only from the pages that godwit app allow-anonymous names")
	}
	if addr := peerAddr(c.R); !a.Signups.Allow(addr) {
		return "", problem.RateLimited.With("this address has registered too often").After(a.Signups.RetryAfter(addr))
	}
	return name, nil
}

func peerAddr(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr) // an unreadable address is not limited, as elsewhere
	return addr.Addr().Unmap()
}

// managed finds the endpoint in the path if the caller may read it or, if change is true, write it.
func (a *API) managed(c *call.Call, change bool) (h holder, id audience.ID, e audience.Endpoint, err error) {
	a.allowPage(c)
	q, err := c.Params("token", "recipient")
	if err != nil {
		return h, id, e, err
	}
	if id, err = audience.ParseID(c.R.PathValue("id")); err != nil {
		return h, id, e, err
	}
	if h, err = a.holder(c, q); err != nil {
		return h, id, e, err
	}
	need := access.Read
	if change {
		need = access.Publish
	}
	switch {
	case h.Visitor() && h.Token == "":
		return h, id, e, access.ErrUnauthenticated
	case h.BackEnd && !h.roles.Has(need):
		return h, id, e, call.NeedRole(need)
	}
	e, err = a.Endpoints.Find(c.Ctx, &h.Holder, id)
	return h, id, e, err
}

// GetEndpoint is GET /v1/endpoints/{id}.
func (a *API) GetEndpoint(c *call.Call) error {
	_, _, e, err := a.managed(c, false)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, endpoint.NewView(&e))
}

// ChangeEndpoint is PATCH /v1/endpoints/{id}.
func (a *API) ChangeEndpoint(c *call.Call) error {
	h, id, _, err := a.managed(c, true)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, form.MaxEndpoint)
	if err != nil {
		return err
	}
	change, err := form.Change(body, &h.Holder)
	if err != nil {
		return err
	}
	e, err := a.Endpoints.Change(c.Ctx, &h.Holder, id, change)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, endpoint.NewView(&e))
}

// DeleteEndpoint is DELETE /v1/endpoints/{id}.
func (a *API) DeleteEndpoint(c *call.Call) error {
	h, id, _, err := a.managed(c, true)
	if err != nil {
		return err
	}
	if err := a.Endpoints.Delete(c.Ctx, h.App, id); err != nil {
		return err
	}
	return c.NoContent()
}
