// Package digests serves digests: it sends those that are due, and shows them over the API and on the command line.
package digests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/module"
)

// patience limits how long the digests that are leaving may take when the server stops.
const patience = 10 * time.Second

// Module serves digests. Without it, nothing gathers.
func Module() module.Module {
	return module.Module{
		Name: digest.Module,
		Start: func(_ context.Context, h *module.Host) error {
			s := &server{digests: h.Digests}
			h.EraseApp(h.Digests.ForgetApp)
			h.EraseRecipient(h.Digests.EraseRecipient)
			h.Run("digests", patience, h.Digests.Run)
			return errors.Join(
				h.Metrics(h.Digests),
				h.Route(
					call.Route{Pattern: "GET /v1/digests", Role: access.Read, Serve: s.list},
					call.Route{Pattern: "GET /v1/digests/{id}", Role: access.Read, Serve: s.get},
				),
			)
		},
	}
}

type server struct{ digests *digest.Service }

// digestJSON is a digest in the API.
type digestJSON struct {
	ID       string      `json:"id"`
	To       string      `json:"to"`
	Category string      `json:"category"`
	Key      string      `json:"key"`
	State    string      `json:"state"`
	Count    int         `json:"count"`
	OpenedAt call.Moment `json:"opened_at"`
	DueAt    call.Moment `json:"due_at"`
	SentAt   call.Moment `json:"sent_at"`
	Items    []string    `json:"items,omitempty"`
}

func view(d *digest.Digest) digestJSON {
	v := digestJSON{
		ID: d.ID, To: d.To, Category: d.Category, Key: d.Key, State: d.State.String(), Count: d.Items,
		OpenedAt: call.Moment(d.Opened), DueAt: call.Moment(d.Due),
	}
	if d.State == digest.Sent {
		v.SentAt = call.Moment(d.Ended)
	}
	return v
}

// list is GET /v1/digests.
func (s *server) list(c *call.Call) error {
	q, limit, err := c.ListParams("to", "state")
	if err != nil {
		return err
	}
	for _, name := range []string{"to", "cursor"} {
		if text := q.Get(name); text != "" {
			if err := notification.CheckName(name, text); err != nil {
				return err
			}
		}
	}
	state := q.Get("state")
	if state != "" && state != digest.Open.String() {
		return notification.BadField("state", "%q is not %s; leave it out to list all", notification.Clip(state), digest.Open)
	}
	found, err := s.digests.Digests(c.Ctx, c.Key.App, q.Get("to"), state != "", q.Get("cursor"), limit+1)
	if err != nil {
		return err
	}
	cursor := ""
	if len(found) > limit {
		found = found[:limit]
		cursor = found[limit-1].ID
	}
	l := call.NewList[digestJSON](len(found), cursor)
	for i := range found {
		l.Items = append(l.Items, view(&found[i]))
	}
	return c.Value(http.StatusOK, l)
}

// get is GET /v1/digests/{id}.
func (s *server) get(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	id := c.R.PathValue("id")
	if err := notification.CheckName("id", id); err != nil {
		return err
	}
	d, items, err := s.digests.Digest(c.Ctx, c.Key.App, id)
	if err != nil {
		return fmt.Errorf("read digest %s: %w", id, err)
	}
	v := view(&d)
	v.Items = items
	return c.Value(http.StatusOK, v)
}
