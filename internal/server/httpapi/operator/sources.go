package operator

import (
	"context"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sources read an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, kind string) (source.Info, error)
	// Fields returns the fields of a kind.
	Fields(kind string) ([]setting.Field, error)
	Set(ctx context.Context, app, kind string, c source.Change) (info source.Info, created bool, err error)
	Delete(ctx context.Context, app, kind string) error
}

const maxSourceBody = 256 << 10 // a thousand names

// sourceJSON holds the members of every source.
type sourceJSON struct {
	Enabled   bool         `json:"enabled"`
	State     source.State `json:"state"`
	Finding   string       `json:"finding,omitempty"`
	LastError string       `json:"last_error,omitempty"`
	Failing   call.Moment  `json:"failing_since"`
	Counts    countsJSON   `json:"counts"`
	CreatedAt call.Moment  `json:"created_at"`
	UpdatedAt call.Moment  `json:"updated_at"`
}

type countsJSON struct {
	Stored      uint64 `json:"stored"`
	Duplicate   uint64 `json:"duplicate"`
	Expired     uint64 `json:"expired"`
	Quarantined uint64 `json:"quarantined"`
	Full        uint64 `json:"full"`
}

func viewSource(i *source.Info) ofKind[sourceJSON] {
	return ofKind[sourceJSON]{"source", i.Kind, i.Values, i.View, sourceJSON{
		Enabled: i.Enabled, State: i.State, Finding: i.Finding, LastError: i.Error, Failing: call.Moment(i.Since), Counts: countsJSON(i.Counts),
		CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
	}}
}

// sources returns the calls below /v1/sources. A PUT leaves an absent password unchanged, since callers cannot read it to send it back;
// null removes it.
func (a *API) sources() settings[ofKind[sourceJSON]] {
	return settings[ofKind[sourceJSON]]{
		kind: "source", path: "/v1/sources", name: "source", most: maxSourceBody,
		drop: func(c *call.Call, name string) error { return a.Sources.Delete(c.Ctx, c.Key.App, name) },
		list: func(c *call.Call) ([]ofKind[sourceJSON], error) {
			return views(a.Sources.List(c.Key.App), viewSource), nil
		},
		get: func(c *call.Call, name string) (ofKind[sourceJSON], error) {
			info, err := a.Sources.Get(c.Key.App, name)
			return viewSource(&info), err
		},
		set: func(c *call.Call, name string, body []byte) (v ofKind[sourceJSON], created bool, err error) {
			fields, err := a.Sources.Fields(name)
			if err != nil {
				return v, false, err
			}
			var change source.Change
			if change.Values, err = decodeValues(body, fields, call.Fields{"enabled": &change.Enabled}); err != nil {
				return v, false, err
			}
			info, created, err := a.Sources.Set(c.Ctx, c.Key.App, name, change)
			return viewSource(&info), created, err
		},
	}
}
