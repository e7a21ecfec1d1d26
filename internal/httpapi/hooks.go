package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/hook"
	"godwit.dev/godwit/internal/problem"
)

// Hooks tell an app's own programs of events.
type Hooks interface {
	List(app string) []hook.Info
	Get(app, name string) (hook.Info, error)
	// Set makes or changes a hook; a secret that was made is returned this once.
	Set(ctx context.Context, app, name string, c hook.Change) (info hook.Info, created bool, made string, err error)
	Delete(ctx context.Context, app, name string) error
	Replay(ctx context.Context, app, name string, since uint64) (hook.Info, error)
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
	LastDelivered moment       `json:"last_delivered_at"`
	FailingSince  moment       `json:"failing_since"`
	Attempts      int          `json:"attempts"`
	NextAttempt   moment       `json:"next_attempt_at"`
	LastError     string       `json:"last_error,omitempty"`
	PausedAt      moment       `json:"paused_at"`
	PausedReason  string       `json:"paused_reason,omitempty"`
	CreatedAt     moment       `json:"created_at"`
	UpdatedAt     moment       `json:"updated_at"`
	Secret        string       `json:"secret,omitempty"` // that was made, shown once
}

func viewHook(i *hook.Info) hookJSON {
	v := hookJSON{
		Name: i.Hook.Name, URL: i.URL, Types: i.Types, Secrets: len(i.Secrets), Enabled: i.Enabled, State: i.State,
		Cursor: strconv.FormatUint(i.Cursor, 10), Newest: strconv.FormatUint(i.Newest, 10), Delivered: i.Delivered,
		LastDelivered: moment(i.LastDelivered), FailingSince: moment(i.Progress.Failing), Attempts: i.Attempts, NextAttempt: moment(i.NextAt),
		LastError: i.LastError, PausedAt: moment(i.PausedAt), PausedReason: i.Paused, CreatedAt: moment(i.CreatedAt), UpdatedAt: moment(i.UpdatedAt),
	}
	if v.Types == nil {
		v.Types = []event.Type{}
	}
	return v
}

// hookError words what hooks fail with.
func hookError(err error) error {
	if errors.Is(err, hook.ErrUnknown) {
		return problem.NotFound.With("the app has no hook of this name")
	}
	return err
}

// listHooks is GET /v1/hooks. An app has few: they are one page.
func (a *api) listHooks(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	infos := a.Hooks.List(c.key.App)
	l := newList[hookJSON](len(infos), "")
	for i := range infos {
		l.Items = append(l.Items, viewHook(&infos[i]))
	}
	return c.value(http.StatusOK, l)
}

// getHook is GET /v1/hooks/{name}.
func (a *api) getHook(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	info, err := a.Hooks.Get(c.key.App, c.r.PathValue("name"))
	if err != nil {
		return hookError(err)
	}
	return c.value(http.StatusOK, viewHook(&info))
}

// putHook is PUT /v1/hooks/{name}.
func (a *api) putHook(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxHookBody)
	if err != nil {
		return err
	}
	change, err := decodeHook(body)
	if err != nil {
		return err
	}
	name := c.r.PathValue("name")
	info, created, made, err := a.Hooks.Set(c.ctx, c.key.App, name, change)
	if err != nil {
		return err
	}
	a.Log.InfoContext(c.ctx, "hook set", "app", c.key.App, "hook", name, "by", c.key.Key)
	v := viewHook(&info)
	v.Secret = made
	if created {
		return c.value(http.StatusCreated, v)
	}
	return c.value(http.StatusOK, v)
}

func decodeHook(body []byte) (change hook.Change, err error) {
	var types, secrets []string
	err = fields{
		"url": &change.URL, "types": texts(&types, len(event.Types), word), "secrets": texts(&secrets, maxSettingList, word), "enabled": &change.Enabled,
	}.decode(body)
	if err == nil && change.URL == "" {
		err = badField("url", "is required: where events are posted")
	}
	for _, t := range types {
		change.Types = append(change.Types, event.Type(t))
	}
	change.Secrets = append(change.Secrets, secrets...)
	return change, err
}

// deleteHook is DELETE /v1/hooks/{name}.
func (a *api) deleteHook(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	if err := a.Hooks.Delete(c.ctx, c.key.App, c.r.PathValue("name")); err != nil {
		return hookError(err)
	}
	a.Log.InfoContext(c.ctx, "hook deleted", "app", c.key.App, "hook", c.r.PathValue("name"), "by", c.key.Key)
	return c.noContent()
}

// replayHook is POST /v1/hooks/{name}/replay.
func (a *api) replayHook(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxHookBody)
	if err != nil {
		return err
	}
	since, given := uint64(0), false
	err = fields{"since": text(func(field, id string) (err error) {
		if since, err = strconv.ParseUint(id, 10, 64); err != nil {
			return badField(field, "%q is not an event_id", clip(id))
		}
		given = true
		return nil
	})}.decode(body)
	if err == nil && !given {
		err = badField("since", "is required: the event_id after which to begin, \"0\" for all that are kept")
	}
	if err != nil {
		return err
	}
	info, err := a.Hooks.Replay(c.ctx, c.key.App, c.r.PathValue("name"), since)
	if err != nil {
		return hookError(err)
	}
	return c.value(http.StatusOK, viewHook(&info))
}
