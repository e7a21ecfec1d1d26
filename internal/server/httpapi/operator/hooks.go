package operator

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Hooks post events to an app's own programs.
type Hooks interface {
	List(ctx context.Context, app string) ([]hook.Info, error)
	Get(ctx context.Context, app, name string) (hook.Info, error)
	// Set makes or changes a hook; made is a generated secret, which is not shown again.
	Set(ctx context.Context, app, name string, c hook.Change) (info hook.Info, created bool, made string, err error)
	Delete(ctx context.Context, app, name string, must setting.Match) error
	Replay(ctx context.Context, app, name string, since uint64) (hook.Info, error)
	// Test posts a special event of type test.
	Test(ctx context.Context, app, name string) error
}

const maxHookBody = 16 << 10

type hookJSON struct {
	Name          string       `json:"name"`
	URL           string       `json:"url"`
	Types         []event.Type `json:"types"`
	Secrets       int          `json:"secrets"` // how many are set
	Enabled       bool         `json:"enabled"`
	State         hook.State   `json:"state"`
	Cursor        string       `json:"cursor"`
	Newest        string       `json:"newest_event_id"`
	Delivered     uint64       `json:"delivered"`
	LastDelivered call.Moment  `json:"last_delivered_at"`
	FailingSince  call.Moment  `json:"failing_since"`
	Attempts      int          `json:"attempts"`
	NextAttempt   call.Moment  `json:"next_attempt_at"`
	LastError     string       `json:"last_error,omitempty"`
	PausedAt      call.Moment  `json:"paused_at"`
	PausedReason  string       `json:"paused_reason,omitempty"`
	CreatedAt     call.Moment  `json:"created_at"`
	UpdatedAt     call.Moment  `json:"updated_at"`
	Secret        string       `json:"secret,omitempty"` // that was made, shown once

	revised
}

func viewHook(i *hook.Info) hookJSON {
	v := hookJSON{
		Name: i.Hook.Name, URL: i.URL, Types: i.Types, Secrets: len(i.Secrets), Enabled: i.Enabled, State: i.State,
		Cursor: strconv.FormatUint(i.Cursor, 10), Newest: strconv.FormatUint(i.Newest, 10), Delivered: i.Delivered,
		LastDelivered: call.Moment(i.LastDelivered), FailingSince: call.Moment(i.Progress.Failing), Attempts: i.Attempts, NextAttempt: call.Moment(i.NextAt),
		LastError: i.LastError, PausedAt: call.Moment(i.PausedAt), PausedReason: i.Paused, CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
		revised: atRevision(setting.RevisionAt(i.UpdatedAt)),
	}
	if v.Types == nil {
		v.Types = []event.Type{}
	}
	return v
}

// hooks returns the calls below /v1/hooks.
func (a *API) hooks() settings[hookJSON] {
	return settings[hookJSON]{
		kind: "hook", path: "/v1/hooks", name: "name", most: maxHookBody,
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Hooks.Delete(c.Ctx, c.Key.App, name, must)
		},
		list: func(c *call.Call) ([]hookJSON, error) {
			infos, err := a.Hooks.List(c.Ctx, c.Key.App)
			return views(infos, viewHook), err
		},
		get: func(c *call.Call, name string) (hookJSON, error) {
			info, err := a.Hooks.Get(c.Ctx, c.Key.App, name)
			return viewHook(&info), err
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v hookJSON, created bool, err error) {
			change, err := decodeHook(body)
			if err != nil {
				return v, false, err
			}
			change.Must = must
			info, created, made, err := a.Hooks.Set(c.Ctx, c.Key.App, name, change)
			v = viewHook(&info)
			v.Secret = made
			return v, created, err
		},
	}
}

func decodeHook(body []byte) (change hook.Change, err error) {
	var types, secrets []string
	err = call.Fields{
		"url": &change.URL, "types": call.Texts(&types, len(event.Types), call.Word), "secrets": call.Texts(&secrets, mostWords, call.Word), "enabled": &change.Enabled,
	}.Decode(body)
	if err == nil && change.URL == "" {
		err = notification.BadField("url", "is required: where events are posted")
	}
	for _, t := range types {
		change.Types = append(change.Types, event.Type(t))
	}
	change.Secrets = append(change.Secrets, secrets...)
	return change, err
}

// ReplayHook is POST /v1/hooks/{name}/replay.
func (a *API) ReplayHook(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxHookBody)
	if err != nil {
		return err
	}
	since, given := uint64(0), false
	err = call.Fields{"since": call.Text(func(field, id string) (err error) {
		if since, err = strconv.ParseUint(id, 10, 64); err != nil {
			return notification.BadField(field, "%q is not an event_id", notification.Clip(id))
		}
		given = true
		return nil
	})}.Decode(body)
	if err == nil && !given {
		err = notification.BadField("since", "is required: the event_id after which to begin, \"0\" for all that are kept")
	}
	if err != nil {
		return err
	}
	info, err := a.Hooks.Replay(c.Ctx, c.Key.App, c.R.PathValue("name"), since)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, viewHook(&info))
}

// TestHook is POST /v1/hooks/{name}/test. It returns the receiver's answer; the request succeeds even if the receiver failed.
func (a *API) TestHook(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	err := a.Hooks.Test(c.Ctx, c.Key.App, c.R.PathValue("name"))
	if errors.Is(err, hook.ErrUnknown) {
		return err
	}
	return c.Value(http.StatusOK, tested("", err))
}
