package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/session"
)

type recipientJSON struct {
	ID            string             `json:"id"`
	Pending       int                `json:"pending"`
	LastSeq       uint64             `json:"last_seq"`
	LastSeen      moment             `json:"last_seen"`
	Online        bool               `json:"online"`
	Presence      string             `json:"presence,omitempty"`
	Devices       []string           `json:"devices"`
	Sessions      []sessionJSON      `json:"sessions"`
	Endpoints     []endpointJSON     `json:"endpoints"`
	Registrations []registrationJSON `json:"registrations"`
}

// completeness is what answers say of the presence in them: "partial" if not every node could be asked, else nothing.
func completeness(partial bool) string {
	if partial {
		return "partial"
	}
	return ""
}

type sessionJSON struct {
	ID          string `json:"id"`
	Node        string `json:"node"`
	Device      string `json:"device"`
	Gateway     string `json:"gateway"`
	ConnectedAt moment `json:"connected_at"`
	LastSeen    moment `json:"last_seen"`
	Unacked     int    `json:"unacked"`
	Behind      bool   `json:"behind"`
}

func (a *api) recipientView(c *call, info mailbox.RecipientInfo, live []session.Info, endpoints []audience.Endpoint) (recipientJSON, error) {
	regs, err := a.Objects.OfRecipient(c.ctx, c.key.App, info.Name)
	if err != nil {
		return recipientJSON{}, err
	}
	v := recipientJSON{
		ID: info.Name, Pending: info.Pending, LastSeq: info.LastSeq, LastSeen: moment(info.LastSeen), Online: len(live) > 0,
		Devices: append([]string{}, info.Devices...), Sessions: make([]sessionJSON, 0, len(live)),
		Endpoints: make([]endpointJSON, 0, len(endpoints)), Registrations: make([]registrationJSON, 0, len(regs)),
	}
	for i := range regs {
		v.Registrations = append(v.Registrations, viewRegistration(&regs[i], true))
	}
	for i := range endpoints {
		e := viewEndpoint(&endpoints[i])
		e.Address = nil // it has secrets that who looks at people does not need
		v.Endpoints = append(v.Endpoints, e)
	}
	for _, s := range live {
		v.Sessions = append(v.Sessions, a.sessionView(s))
		if s.LastSeen.After(info.LastSeen) {
			info.LastSeen = s.LastSeen
		}
	}
	v.LastSeen = moment(info.LastSeen)
	return v, nil
}

func (a *api) sessionView(s session.Info) sessionJSON {
	return sessionJSON{
		ID: s.ID, Node: a.Node, Device: s.Device, Gateway: s.Gateway, ConnectedAt: moment(s.ConnectedAt),
		LastSeen: moment(s.LastSeen), Unacked: s.Unacked, Behind: s.Behind,
	}
}

// listRecipients is GET /v1/recipients.
func (a *api) listRecipients(c *call) error {
	q, err := c.params("limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := page(q)
	if err != nil {
		return err
	}
	cursor := q.Get("cursor")
	if cursor != "" {
		if err := notification.CheckName("cursor", cursor); err != nil {
			return err
		}
	}
	infos, next, err := a.Mailbox.Recipients(c.ctx, c.key.App, limit, cursor)
	if err != nil {
		return err
	}
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	live, partial, err := a.Presence.Sessions(c.ctx, c.key.App, names)
	if err != nil {
		return err
	}
	l := newList[recipientJSON](len(infos), next)
	for i := range infos {
		endpoints, err := a.Endpoints.Of(c.ctx, c.key.App, infos[i].Name)
		if err != nil {
			return err
		}
		v, err := a.recipientView(c, infos[i], live[i], endpoints)
		if err != nil {
			return err
		}
		v.Presence = completeness(partial)
		l.Items = append(l.Items, v)
	}
	return c.value(http.StatusOK, l)
}

// getRecipient is GET /v1/recipients/{id}.
func (a *api) getRecipient(c *call) error {
	name, _, err := c.recipient()
	if err != nil {
		return err
	}
	found, partial, err := a.Presence.Sessions(c.ctx, c.key.App, []string{name})
	if err != nil {
		return err
	}
	live := found[0]
	endpoints, err := a.Endpoints.Of(c.ctx, c.key.App, name)
	if err != nil {
		return err
	}
	info, err := a.Mailbox.Recipient(c.ctx, c.key.App, name)
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
	v.Presence = completeness(partial)
	return c.value(http.StatusOK, v)
}

// history is GET /v1/recipients/{id}/notifications, newest first.
func (a *api) history(c *call) error {
	name, q, err := c.recipient("status", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := page(q)
	if err != nil {
		return err
	}
	var status notification.Status
	if s := q.Get("status"); s != "" {
		var ok bool
		if status, ok = notification.ParseStatus(s); !ok {
			return badField("status", "%q is not a status", clip(s))
		}
	}
	var cursor int64
	if s := q.Get("cursor"); s != "" {
		if cursor, err = strconv.ParseInt(s, 10, 64); err != nil || cursor < 1 {
			return badField("cursor", "is not one that this list gave")
		}
	}
	records, next, err := a.Mailbox.History(c.ctx, c.key.App, name, status, limit, cursor)
	if err != nil {
		return err
	}
	b := append(appendRecords([]byte(`{"items":`), records), `,"next_cursor":`...)
	if next > 0 {
		b = append(strconv.AppendInt(append(b, '"'), next, 10), '"')
	} else {
		b = append(b, "null"...)
	}
	return c.json(http.StatusOK, append(b, "}\n"...))
}

// erase is DELETE /v1/recipients/{id}. The store forgets first: a session that ended before could come back in between.
func (a *api) erase(c *call) error {
	name, _, err := c.recipient()
	if err != nil {
		return err
	}
	regs, err := a.Objects.OfRecipient(c.ctx, c.key.App, name)
	if err != nil {
		return err
	}
	err = a.Mailbox.Erase(c.ctx, c.key.App, name)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return err
	}
	objectsErr := a.Objects.Erase(c.ctx, c.key.App, name)
	ended, partial, offlineErr := a.Presence.Disconnect(c.ctx, c.key.App, name, "erased")
	if objectsErr != nil {
		return objectsErr
	}
	endpoints, failed := a.Endpoints.Erase(c.ctx, c.key.App, name)
	if failed != nil {
		return failed
	}
	if offlineErr != nil {
		return offlineErr
	}
	if err != nil && ended+len(regs)+endpoints == 0 {
		return err
	}
	a.Log.InfoContext(c.ctx, "recipient erased", "app", c.key.App, "recipient", name, "key", c.key.Key, "sessions", ended, "partial", partial, "endpoints", endpoints)
	return c.noContent()
}

// disconnect is DELETE /v1/recipients/{id}/sessions.
func (a *api) disconnect(c *call) error {
	name, _, err := c.recipient()
	if err != nil {
		return err
	}
	n, partial, err := a.Presence.Disconnect(c.ctx, c.key.App, name, "disconnected")
	if err != nil {
		return err
	}
	a.Log.InfoContext(c.ctx, "recipient disconnected", "app", c.key.App, "recipient", name, "key", c.key.Key, "sessions", n)
	return c.value(http.StatusOK, struct {
		Disconnected int    `json:"disconnected"`
		Presence     string `json:"presence,omitempty"`
	}{n, completeness(partial)})
}

// recipient returns the name in the path and the query, of which the route knows these parameters.
func (c *call) recipient(known ...string) (name string, q url.Values, err error) {
	if q, err = c.params(known...); err != nil {
		return "", nil, err
	}
	name = c.r.PathValue("id")
	return name, q, notification.CheckName("recipient", name)
}
