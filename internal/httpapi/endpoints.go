package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
	"godwit.dev/godwit/internal/push"
)

// maxEndpointBody holds an endpoint with all its tags and attributes.
const maxEndpointBody = 64 << 10

type endpointJSON struct {
	ID             string              `json:"id"`
	Channel        push.Channel        `json:"channel"`
	Recipient      *string             `json:"recipient"`
	Address        json.RawMessage     `json:"address,omitempty"`
	Tags           []string            `json:"tags"`
	Attributes     audience.Attributes `json:"attributes"`
	Locale         *string             `json:"locale"`
	Timezone       *string             `json:"timezone"`
	Status         audience.Status     `json:"status"`
	DisabledReason *string             `json:"disabled_reason"`
	CreatedAt      moment              `json:"created_at"`
	UpdatedAt      moment              `json:"updated_at"`
	LastSeenAt     moment              `json:"last_seen_at"`
}

func viewEndpoint(e *audience.Endpoint) endpointJSON {
	v := endpointJSON{
		ID: e.ID.String(), Channel: e.Channel, Recipient: orNull(e.Recipient), Address: e.Address, Tags: e.Tags, Attributes: e.Attributes,
		Locale: orNull(e.Locale), Timezone: orNull(e.Timezone), Status: e.Status, DisabledReason: orNull(e.DisabledReason),
		CreatedAt: moment(e.CreatedAt), UpdatedAt: moment(e.UpdatedAt), LastSeenAt: moment(e.LastSeenAt),
	}
	if v.Tags == nil {
		v.Tags = []string{}
	}
	if v.Attributes == nil {
		v.Attributes = audience.Attributes{}
	}
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// holder is who asks for endpoints, with the roles of a back end's key.
type holder struct {
	endpoint.Holder
	roles access.Role
}

// holder finds out who asks: a back end with a key, a client with a token, who holds a manage token, or nobody known.
func (a *api) holder(c *call, q url.Values) (h holder, err error) {
	secret := access.Bearer(c.r.Header)
	if secret == "" {
		secret = q.Get("token")
	}
	switch {
	case audience.IsToken(secret):
		app, err := a.Apps.App(q.Get("app"))
		return holder{Holder: endpoint.Holder{App: app.Name, Token: secret}}, err
	case secret != "":
		if key, err := a.Access.Key(c.ctx, secret); err == nil {
			if app := q.Get("app"); app != "" && app != key.App {
				return h, errOtherApp()
			}
			c.key = key
			return backEnd(key), nil
		}
	case q.Get("recipient") == "" && access.CertURI(c.r.TLS) == "":
		return h, nil
	}
	client, err := a.Access.Client(c.ctx, access.Claim{
		App: q.Get("app"), Token: secret, Recipient: q.Get("recipient"), CertURI: access.CertURI(c.r.TLS),
		Origin: c.r.Header.Get("Origin"), Host: c.r.Host,
	})
	switch {
	case errors.Is(err, access.ErrUnknownApp) && q.Get("app") == "":
		return h, access.ErrUnauthenticated // neither a key nor a token that says whose it is
	case err != nil:
		return h, clientRefused(err)
	}
	return holder{Holder: endpoint.Holder{App: client.App, Recipient: client.Recipient}}, nil
}

func backEnd(key access.Principal) holder {
	return holder{endpoint.Holder{App: key.App, BackEnd: true}, key.Roles}
}

// registerEndpoint is POST /v1/endpoints.
func (a *api) registerEndpoint(c *call) error {
	a.allowPage(c)
	q, err := c.params("token", "recipient")
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
		return needRole(access.Publish)
	case h.Visitor():
		if h.App, err = a.signup(c, q.Get("app")); err != nil {
			return err
		}
	}
	body, err := readBody(c.r, nil, maxEndpointBody)
	if err != nil {
		return err
	}
	reg, err := a.decodeRegistration(body, &h)
	if err != nil {
		return err
	}
	done, token, err := a.Endpoints.RegisterOne(c.ctx, h.App, reg)
	if err != nil {
		return err
	}
	answer := struct {
		ID          string  `json:"id"`
		Created     bool    `json:"created"`
		ManageToken *string `json:"manage_token,omitempty"`
	}{ID: done.Endpoint.ID.String(), Created: done.Created}
	if token != "" {
		answer.ManageToken = &token
	}
	return c.value(registeredStatus(done.Created), answer)
}

func registeredStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// signup admits a visitor without a token: the app must want such, and the page must be one of its own.
func (a *api) signup(c *call, app string) (name string, err error) {
	name, allowed := a.Apps.Anonymous(app, c.r.Header.Get("Origin"))
	if name == "" {
		if _, err := a.Apps.App(app); err != nil {
			return "", err
		}
	}
	if !allowed {
		return "", problem.Forbidden.With("send an API key or a client's token; without one this app takes registrations only from the pages that godwit app allow-anonymous names")
	}
	if addr := peerAddr(c.r); !a.Signups.Allow(addr) {
		return "", problem.RateLimited.With("this address has registered too often").After(a.Signups.RetryAfter(addr))
	}
	return name, nil
}

func peerAddr(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr) // one that cannot be read is not limited, as elsewhere
	return addr.Addr().Unmap()
}

// managed finds the endpoint in the path for who may read it or, with change, write it.
func (a *api) managed(c *call, change bool) (h holder, id audience.ID, e audience.Endpoint, err error) {
	a.allowPage(c)
	q, err := c.params("token", "recipient")
	if err != nil {
		return h, id, e, err
	}
	if id, err = audience.ParseID(c.r.PathValue("id")); err != nil {
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
		return h, id, e, needRole(need)
	}
	e, err = a.Endpoints.Find(c.ctx, &h.Holder, id)
	return h, id, e, err
}

// getEndpoint is GET /v1/endpoints/{id}.
func (a *api) getEndpoint(c *call) error {
	_, _, e, err := a.managed(c, false)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewEndpoint(&e))
}

// changeEndpoint is PATCH /v1/endpoints/{id}.
func (a *api) changeEndpoint(c *call) error {
	h, id, _, err := a.managed(c, true)
	if err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxEndpointBody)
	if err != nil {
		return err
	}
	change, err := decodeChange(body, &h)
	if err != nil {
		return err
	}
	e, err := a.Endpoints.Change(c.ctx, &h.Holder, id, change)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewEndpoint(&e))
}

// deleteEndpoint is DELETE /v1/endpoints/{id}.
func (a *api) deleteEndpoint(c *call) error {
	h, id, _, err := a.managed(c, true)
	if err != nil {
		return err
	}
	if err := a.Endpoints.Delete(c.ctx, h.App, id); err != nil {
		return err
	}
	return c.noContent()
}

// listEndpoints is GET /v1/endpoints.
func (a *api) listEndpoints(c *call) error {
	q, err := c.params("channel", "recipient", "tag", "status", "where", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := page(q)
	if err != nil {
		return err
	}
	status, sel, err := endpointFilter(q)
	if err != nil {
		return err
	}
	after := int64(0)
	if s := q.Get("cursor"); s != "" {
		if after, err = strconv.ParseInt(s, 10, 64); err != nil || after < 1 {
			return badField("cursor", "is not one that this list gave")
		}
	}
	found, next, more, err := a.Endpoints.List(c.ctx, c.key.App, status, sel, after, limit)
	if err != nil {
		return err
	}
	cursor := ""
	if more {
		cursor = strconv.FormatInt(next, 10)
	}
	l := newList[endpointJSON](len(found), cursor)
	for i := range found {
		l.Items = append(l.Items, viewEndpoint(&found[i]))
	}
	return c.value(http.StatusOK, l)
}

// endpointFilter reads which endpoints a list or an export is to have.
func endpointFilter(q url.Values) (status audience.Status, sel *audience.Selection, err error) {
	a := audience.Audience{Where: q.Get("where")}
	if ch := q.Get("channel"); ch != "" {
		if !audience.Known(push.Channel(ch)) {
			return "", nil, badField("channel", "%q is not a channel", clip(ch))
		}
		a.Channels = []push.Channel{push.Channel(ch)}
	}
	if name := q.Get("recipient"); name != "" {
		if err := notification.CheckName("recipient", name); err != nil {
			return "", nil, err
		}
		a.Recipients = []string{name}
	}
	if tag := q.Get("tag"); tag != "" {
		a.TagsAll = []string{tag}
	}
	switch status = audience.Status(q.Get("status")); status {
	case "", audience.Active, audience.Disabled:
	default:
		return "", nil, badField("status", "%q is none of active, disabled", clip(string(status)))
	}
	sel, err = a.Select("")
	return status, sel, err
}

// endpointsPreflight answers a browser that asks whether a page may use endpoints.
func (a *api) endpointsPreflight(c *call) error {
	if a.allowPage(c) {
		h := c.w.Header()
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.noContent()
}

// allowPage lets pages read the answer from which the app takes clients or registrations.
func (a *api) allowPage(c *call) bool {
	if a.allowOrigin(c) {
		return true
	}
	origin := c.r.Header.Get("Origin")
	if _, allowed := a.Apps.Anonymous(c.query().Get("app"), origin); !allowed {
		return false
	}
	c.w.Header().Set("Access-Control-Allow-Origin", origin)
	return true
}

// countPatience is how long an audience may take to count: people wait for it while they type.
const countPatience = 10 * time.Second

// audienceTotals is GET /v1/audience.
func (a *api) audienceTotals(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	active, disabled, err := a.Endpoints.Totals(c.ctx, c.key.App)
	if err != nil {
		return err
	}
	tags, attributes, err := a.Endpoints.Names(c.ctx, c.key.App)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, map[string]any{"active": active, "disabled": disabled, "tags": tags, "attributes": attributes})
}

// countAudience is POST /v1/audience/count.
func (a *api) countAudience(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, notification.MaxRequestBytes)
	if err != nil {
		return err
	}
	var picked audience.Audience
	err = audienceFields(&picked).decodeOrNull(body)
	if err != nil {
		return err
	}
	sel, err := picked.Select("")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, countPatience)
	defer cancel()
	channels, err := a.Endpoints.Count(ctx, c.key.App, sel)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, n := range channels {
		total += n
	}
	return c.value(http.StatusOK, map[string]any{"count": total, "channels": channels})
}

// audienceFields are the fields of an audience.
func audienceFields(a *audience.Audience) fields {
	return fields{
		"channels": reader(func(field string, raw json.RawMessage) error {
			var names []string
			err := texts(&names, len(audience.Channels()), nil)(field, raw)
			for _, ch := range names {
				a.Channels = append(a.Channels, push.Channel(ch))
			}
			return err
		}),
		"recipients": texts(&a.Recipients, audience.MaxRecipients, nil),
		"tags_any":   texts(&a.TagsAny, audience.MaxTags, nil),
		"tags_all":   texts(&a.TagsAll, audience.MaxTags, nil),
		"where":      &a.Where,
	}
}
