package backend

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/httpapi/form"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/session"
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
	Endpoints     []form.Endpoint    `json:"endpoints"`
	Registrations []registrationJSON `json:"registrations"`
}

func (a *API) recipientView(c *call.Call, info mailbox.RecipientInfo, live []session.Info, endpoints []audience.Endpoint) (recipientJSON, error) {
	regs, err := a.Objects.OfRecipient(c.Ctx, c.Key.App, info.Name)
	if err != nil {
		return recipientJSON{}, err
	}
	v := recipientJSON{
		ID: info.Name, Pending: info.Pending, LastSeq: info.LastSeq, LastSeen: call.Moment(info.LastSeen), Online: len(live) > 0,
		Devices: append([]string{}, info.Devices...), Sessions: make([]form.Session, 0, len(live)),
		Endpoints: make([]form.Endpoint, 0, len(endpoints)), Registrations: make([]registrationJSON, 0, len(regs)),
	}
	for i := range regs {
		v.Registrations = append(v.Registrations, viewRegistration(&regs[i], true))
	}
	for i := range endpoints {
		e := form.ViewEndpoint(&endpoints[i])
		e.Address = nil // it has secrets that who looks at people does not need
		v.Endpoints = append(v.Endpoints, e)
	}
	for _, s := range live {
		v.Sessions = append(v.Sessions, form.ViewSession(s, a.Node))
		if s.LastSeen.After(info.LastSeen) {
			info.LastSeen = s.LastSeen
		}
	}
	v.LastSeen = call.Moment(info.LastSeen)
	return v, nil
}

// ListRecipients is GET /v1/recipients.
func (a *API) ListRecipients(c *call.Call) error {
	q, limit, err := c.ListParams()
	if err != nil {
		return err
	}
	cursor := q.Get("cursor")
	if cursor != "" {
		if err := notification.CheckName("cursor", cursor); err != nil {
			return err
		}
	}
	infos, next, err := a.Mailbox.Recipients(c.Ctx, c.Key.App, limit, cursor)
	if err != nil {
		return err
	}
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	live, partial, err := a.Presence.Sessions(c.Ctx, c.Key.App, names)
	if err != nil {
		return err
	}
	l := call.NewList[recipientJSON](len(infos), next)
	for i := range infos {
		endpoints, err := a.Endpoints.Of(c.Ctx, c.Key.App, infos[i].Name)
		if err != nil {
			return err
		}
		v, err := a.recipientView(c, infos[i], live[i], endpoints)
		if err != nil {
			return err
		}
		v.Presence = form.Completeness(partial)
		l.Items = append(l.Items, v)
	}
	return c.Value(http.StatusOK, l)
}

// GetRecipient is GET /v1/recipients/{id}.
func (a *API) GetRecipient(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	found, partial, err := a.Presence.Sessions(c.Ctx, c.Key.App, []string{name})
	if err != nil {
		return err
	}
	live := found[0]
	endpoints, err := a.Endpoints.Of(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	info, err := a.Mailbox.Recipient(c.Ctx, c.Key.App, name)
	if errors.Is(err, mailbox.ErrNotFound) && len(live)+len(endpoints) > 0 {
		info, err = mailbox.RecipientInfo{Name: name}, nil // connected for the first time, or has endpoints alone
	}
	if err != nil {
		return err
	}
	v, err := a.recipientView(c, info, live, endpoints)
	if err != nil {
		return err
	}
	v.Presence = form.Completeness(partial)
	return c.Value(http.StatusOK, v)
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

// Erase is DELETE /v1/recipients/{id}. The store forgets first: a session that ended before could come back in between.
func (a *API) Erase(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	regs, err := a.Objects.OfRecipient(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	err = a.Mailbox.Erase(c.Ctx, c.Key.App, name)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return err
	}
	objectsErr := a.Objects.Erase(c.Ctx, c.Key.App, name)
	ended, partial, offlineErr := a.Presence.Disconnect(c.Ctx, c.Key.App, name, "erased")
	if objectsErr != nil {
		return objectsErr
	}
	endpoints, failed := a.Endpoints.Erase(c.Ctx, c.Key.App, name)
	if failed != nil {
		return failed
	}
	if offlineErr != nil {
		return offlineErr
	}
	if err != nil && ended+len(regs)+endpoints == 0 {
		return err
	}
	a.Log.InfoContext(c.Ctx, "recipient erased", "app", c.Key.App, "recipient", name, "key", c.Key.Key, "sessions", ended, "partial", partial, "endpoints", endpoints)
	return c.NoContent()
}

// Disconnect is DELETE /v1/recipients/{id}/sessions.
func (a *API) Disconnect(c *call.Call) error {
	name, _, err := recipientOf(c)
	if err != nil {
		return err
	}
	n, partial, err := a.Presence.Disconnect(c.Ctx, c.Key.App, name, "disconnected")
	if err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "recipient disconnected", "app", c.Key.App, "recipient", name, "key", c.Key.Key, "sessions", n)
	return c.Value(http.StatusOK, struct {
		Disconnected int    `json:"disconnected"`
		Presence     string `json:"presence,omitempty"`
	}{n, form.Completeness(partial)})
}

// recipientOf returns the name in the path and the query, of which the route knows these parameters.
func recipientOf(c *call.Call, known ...string) (name string, q url.Values, err error) {
	if q, err = c.Params(known...); err != nil {
		return "", nil, err
	}
	name = c.R.PathValue("id")
	return name, q, notification.CheckName("recipient", name)
}
