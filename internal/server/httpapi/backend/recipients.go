package backend

import (
	"net/http"
	"net/url"
	"strconv"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
)

type recipientJSON struct {
	ID            string             `json:"id"`
	Pending       int                `json:"pending"`
	LastSeq       uint64             `json:"last_seq"`
	LastSeen      call.Moment        `json:"last_seen"`
	Online        bool               `json:"online"`
	Presence      string             `json:"presence,omitempty"`
	Devices       []string           `json:"devices"`
	Sessions      []form.Session     `json:"sessions"`
	Endpoints     []endpoint.View    `json:"endpoints"`
	Registrations []registrationJSON `json:"registrations"`
}

func (a *API) recipientView(r *recipient.View) recipientJSON {
	v := recipientJSON{
		ID: r.Name, Pending: r.Pending, LastSeq: r.LastSeq, LastSeen: call.Moment(r.LastSeen), Online: len(r.Sessions) > 0,
		Presence: form.Completeness(r.Partial), Devices: append([]string{}, r.Devices...), Sessions: make([]form.Session, 0, len(r.Sessions)),
		Endpoints: make([]endpoint.View, 0, len(r.Endpoints)), Registrations: make([]registrationJSON, 0, len(r.Registrations)),
	}
	for i := range r.Registrations {
		v.Registrations = append(v.Registrations, viewRegistration(&r.Registrations[i], true))
	}
	for i := range r.Endpoints {
		e := endpoint.NewView(&r.Endpoints[i])
		e.Address = nil // an address contains secrets that a reader of recipients does not need
		v.Endpoints = append(v.Endpoints, e)
	}
	for _, s := range r.Sessions {
		v.Sessions = append(v.Sessions, form.ViewSession(s, a.Node))
	}
	return v
}

// ListRecipients is GET /v1/recipients.
func (a *API) ListRecipients(c *call.Call) error {
	q, limit, err := c.ListParams("prefix")
	if err != nil {
		return err
	}
	for _, name := range []string{"prefix", "cursor"} {
		if text := q.Get(name); text != "" {
			if err := notification.CheckPart(name, text); err != nil {
				return err
			}
		}
	}
	list, next, err := a.Recipients.List(c.Ctx, c.Key.App, q.Get("prefix"), limit, q.Get("cursor"))
	if err != nil {
		return err
	}
	l := call.NewList[recipientJSON](len(list), next)
	for _, r := range list {
		l.Items = append(l.Items, a.recipientView(r))
	}
	return c.Value(http.StatusOK, l)
}

// GetRecipient is GET /v1/recipients/{id}.
func (a *API) GetRecipient(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	r, err := a.Recipients.Get(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, a.recipientView(r))
}

// History is GET /v1/recipients/{id}/notifications, newest first.
func (a *API) History(c *call.Call) error {
	name, q, err := recipientOf(c, "status", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := call.Page(q)
	if err != nil {
		return err
	}
	status, err := statusOf(q.Get("status"))
	if err != nil {
		return err
	}
	cursor, err := numericCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	records, next, err := a.Mailbox.History(c.Ctx, c.Key.App, name, status, limit, cursor)
	if err != nil {
		return err
	}
	b := append(appendRecords([]byte(`{"items":`), records), `,"next_cursor":`...)
	if next > 0 {
		b = append(strconv.AppendInt(append(b, '"'), next, 10), '"')
	} else {
		b = append(b, "null"...)
	}
	return c.JSON(http.StatusOK, append(b, "}\n"...))
}

// Erase is DELETE /v1/recipients/{id}.
func (a *API) Erase(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	if err := a.Recipients.Erase(c.Ctx, c.Key.App, name, c.Key.Key); err != nil {
		return err
	}
	return c.NoContent()
}

// Disconnect is DELETE /v1/recipients/{id}/sessions.
func (a *API) Disconnect(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	n, partial, err := a.Recipients.Disconnect(c.Ctx, c.Key.App, name, c.Key.Key)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, struct {
		Disconnected int    `json:"disconnected"`
		Presence     string `json:"presence,omitempty"`
	}{n, form.Completeness(partial)})
}

// recipientOf returns the name in the path, and the query, which may have the known parameters.
func recipientOf(c *call.Call, known ...string) (name string, q url.Values, err error) {
	if q, err = c.Params(known...); err != nil {
		return "", nil, err
	}
	name = c.R.PathValue("id")
	return name, q, notification.CheckName("recipient", name)
}
