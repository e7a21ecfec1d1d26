package operator

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sinks write an app's events to analytics databases.
type Sinks interface {
	List(ctx context.Context, app string) ([]sink.Info, error)
	Get(ctx context.Context, app, kind string) (sink.Info, error)
	// Fields returns the fields of a kind.
	Fields(kind string) ([]setting.Field, error)
	Set(ctx context.Context, app, kind string, c sink.Change) (info sink.Info, created bool, err error)
	Delete(ctx context.Context, app, kind string, must setting.Match) error
}

const maxSinkBody = 16 << 10

// sinkJSON holds the members of every sink.
type sinkJSON struct {
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

	revised
}

func viewSink(i *sink.Info) ofKind[sinkJSON] {
	return ofKind[sinkJSON]{"sink", i.Kind, i.Values, i.View, sinkJSON{
		Enabled: i.Enabled, State: i.State, LastError: i.Error, Failing: call.Moment(i.Since), Written: i.Written, Reconciled: i.Reconciled, Gaps: i.Gaps,
		LastWritten: call.Moment(i.Last), LagMS: i.Lag(time.Now()).Milliseconds(), CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
		revised: atRevision(setting.RevisionAt(i.UpdatedAt)),
	}}
}

// sinks returns the calls below /v1/sinks. A PUT leaves absent fields unchanged, including the password; null removes the password.
func (a *API) sinks() settings[ofKind[sinkJSON]] {
	return settings[ofKind[sinkJSON]]{
		kind: "sink", path: "/v1/sinks", name: "sink", most: maxSinkBody,
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Sinks.Delete(c.Ctx, c.Key.App, name, must)
		},
		list: func(c *call.Call) ([]ofKind[sinkJSON], error) {
			infos, err := a.Sinks.List(c.Ctx, c.Key.App)
			return views(infos, viewSink), err
		},
		get: func(c *call.Call, name string) (ofKind[sinkJSON], error) {
			info, err := a.Sinks.Get(c.Ctx, c.Key.App, name)
			return viewSink(&info), err
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v ofKind[sinkJSON], created bool, err error) {
			fields, err := a.Sinks.Fields(name)
			if err != nil {
				return v, false, err
			}
			change := sink.Change{Private: c.Key.Operator, Must: must}
			if change.Values, err = decodeValues(body, fields, call.Fields{"backfill": &change.Backfill, "enabled": &change.Enabled}); err != nil {
				return v, false, err
			}
			info, created, err := a.Sinks.Set(c.Ctx, c.Key.App, name, change)
			return viewSink(&info), created, err
		},
	}
}
