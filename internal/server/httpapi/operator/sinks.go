package operator

import (
	"context"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sinks bring an app's events to where they are counted.
type Sinks interface {
	List(ctx context.Context, app string) ([]sink.Info, error)
	Get(ctx context.Context, app, kind string) (sink.Info, error)
	Set(ctx context.Context, app, kind string, c sink.Change) (info sink.Info, created bool, err error)
	Delete(ctx context.Context, app, kind string) error
}

const maxSinkBody = 16 << 10

type sinkJSON struct {
	Sink        string      `json:"sink"`
	URL         string      `json:"url"`
	Database    string      `json:"database"`
	User        string      `json:"user"`
	Credentials []string    `json:"credentials"` // names of those that are set
	Keep        string      `json:"keep"`
	Enabled     bool        `json:"enabled"`
	State       sink.State  `json:"state"`
	LastError   string      `json:"last_error,omitempty"`
	Failing     call.Moment `json:"failing_since"`
	Written     uint64      `json:"written"`
	Reconciled  uint64      `json:"reconciled"`
	Gaps        uint64      `json:"gaps"`
	LastWritten call.Moment `json:"last_written_at"`
	LagMS       int64       `json:"lag_ms"`
	CreatedAt   call.Moment `json:"created_at"`
	UpdatedAt   call.Moment `json:"updated_at"`
}

func viewSink(i *sink.Info) sinkJSON {
	v := sinkJSON{
		Sink: i.Kind, URL: i.URL, Database: i.Database, User: i.User, Credentials: []string{}, Keep: sink.Days(i.Keep), Enabled: i.Enabled, State: i.State,
		LastError: i.Error, Failing: call.Moment(i.Since), Written: i.Written, Reconciled: i.Reconciled, Gaps: i.Gaps, LastWritten: call.Moment(i.Last), LagMS: i.Lag(time.Now()).Milliseconds(),
		CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
	}
	if i.Password != "" {
		v.Credentials = []string{"password"}
	}
	return v
}

// sinks are the calls below /v1/sinks. A PUT leaves absent fields as they are, the password too; null removes the password.
func (a *API) sinks() settings[sinkJSON] {
	return settings[sinkJSON]{
		kind: "sink", path: "/v1/sinks", name: "sink", most: maxSinkBody,
		drop: func(c *call.Call, name string) error { return a.Sinks.Delete(c.Ctx, c.Key.App, name) },
		list: func(c *call.Call) ([]sinkJSON, error) {
			infos, err := a.Sinks.List(c.Ctx, c.Key.App)
			return views(infos, viewSink), err
		},
		get: func(c *call.Call, name string) (sinkJSON, error) {
			info, err := a.Sinks.Get(c.Ctx, c.Key.App, name)
			return viewSink(&info), err
		},
		set: func(c *call.Call, name string, body []byte) (v sinkJSON, created bool, err error) {
			change, err := decodeSink(body)
			if err != nil {
				return v, false, err
			}
			info, created, err := a.Sinks.Set(c.Ctx, c.Key.App, name, change)
			return viewSink(&info), created, err
		},
	}
}

func decodeSink(body []byte) (change sink.Change, err error) {
	text := func(into **string) call.Reader {
		return call.Text(func(_, s string) error {
			*into = &s
			return nil
		})
	}
	flag := func(into **bool) call.Reader {
		return func(field string, raw json.RawMessage) error {
			*into = new(bool)
			return call.ReadValue(field, raw, *into)
		}
	}
	err = call.Fields{
		"url": text(&change.URL), "database": text(&change.Database), "user": text(&change.User), "backfill": flag(&change.Backfill), "enabled": flag(&change.Enabled),
		"keep": call.Text(func(field, s string) error {
			keep, err := notification.ParseDuration(s)
			if err != nil {
				return notification.BadField(field, "%s", err)
			}
			change.Keep = &keep
			return nil
		}),
		"password": password(&change.Password),
	}.Decode(body)
	return change, err
}
