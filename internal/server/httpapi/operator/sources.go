package operator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sources read an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, name string) (source.Info, error)
	// KindOf returns the kind of a source, or that of one that would be made.
	KindOf(app, name, named string) string
	// Fields returns the fields of a kind.
	Fields(kind string) ([]setting.Field, error)
	Set(ctx context.Context, app, name string, c source.Change) (info source.Info, created bool, err error)
	Delete(ctx context.Context, app, name string, must setting.Match) (left string, err error)
	Preview(ctx context.Context, app, name string, c source.Change) (source.Preview, error)
	Quarantine(ctx context.Context, app, name string, below int64, limit int) ([]source.SetAside, error)
	EmptyQuarantine(ctx context.Context, app, name string) error
}

const maxSourceBody = 256 << 10 // a thousand names

// sourceJSON holds the members of every source.
type sourceJSON struct {
	Kind        string       `json:"kind"`
	Enabled     bool         `json:"enabled"`
	State       source.State `json:"state"`
	Finding     string       `json:"finding,omitempty"`
	LagBytes    *int64       `json:"lag_bytes"`
	LagEntries  *int64       `json:"lag_entries"`
	LagSeconds  *float64     `json:"lag_seconds"`
	Quarantined uint64       `json:"quarantined"`
	Detail      string       `json:"detail"`
	LastError   string       `json:"last_error,omitempty"`
	Failing     call.Moment  `json:"failing_since"`
	Counts      countsJSON   `json:"counts"`
	CreatedAt   call.Moment  `json:"created_at"`
	UpdatedAt   call.Moment  `json:"updated_at"`

	revised
}

type countsJSON struct {
	Stored      uint64 `json:"stored"`
	Duplicate   uint64 `json:"duplicate"`
	Expired     uint64 `json:"expired"`
	Quarantined uint64 `json:"quarantined"`
	Full        uint64 `json:"full"`
}

func viewSource(i *source.Info) ofKind[sourceJSON] {
	v := sourceJSON{
		Kind: i.Kind, Enabled: i.Enabled, State: i.State, Finding: i.Finding, Quarantined: i.Counts.Quarantined, Detail: i.Detail, LastError: i.Error,
		Failing: call.Moment(i.Since), Counts: countsJSON(i.Counts), CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
		revised: atRevision(setting.RevisionAt(i.UpdatedAt)),
	}
	switch { // why it fails comes first: what there is beside it may be older
	case v.Detail == "":
		v.Detail = i.Error
	case i.Error != "":
		v.Detail = i.Error + "; " + v.Detail
	}
	if l := i.Lag; l != nil {
		seconds := l.Time.Seconds()
		v.LagBytes, v.LagEntries, v.LagSeconds = &l.Bytes, &l.Entries, &seconds
	}
	return ofKind[sourceJSON]{"source", i.Name, i.Values, i.View, v}
}

// sources returns the calls below /v1/sources. A PUT leaves an absent password unchanged, since callers cannot read it to send it back;
// null removes it.
func (a *API) sources() settings[ofKind[sourceJSON]] {
	return settings[ofKind[sourceJSON]]{
		kind: "source", path: "/v1/sources", name: "source", most: maxSourceBody,
		drop: func(c *call.Call, name string, must setting.Match) error {
			left, err := a.Sources.Delete(c.Ctx, c.Key.App, name, must)
			if err != nil || left == "" {
				return err
			}
			return c.Value(http.StatusOK, leftJSON{left})
		},
		list: func(c *call.Call) ([]ofKind[sourceJSON], error) {
			return views(a.Sources.List(c.Key.App), viewSource), nil
		},
		get: func(c *call.Call, name string) (ofKind[sourceJSON], error) {
			info, err := a.Sources.Get(c.Key.App, name)
			return viewSource(&info), err
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v ofKind[sourceJSON], created bool, err error) {
			change, err := a.sourceChange(c, name, body)
			if err != nil {
				return v, false, err
			}
			change.Must = must
			info, created, err := a.Sources.Set(c.Ctx, c.Key.App, name, change)
			return viewSource(&info), created, err
		},
	}
}

// sourceChange reads the body of a PUT.
func (a *API) sourceChange(c *call.Call, name string, body []byte) (change source.Change, err error) {
	change.Private = c.Key.Operator
	var named struct{ Kind json.RawMessage }
	if json.Unmarshal(body, &named) == nil && named.Kind != nil {
		if change.Kind, err = read[string]("kind", named.Kind); err != nil {
			return change, err
		}
	}
	fields, err := a.Sources.Fields(a.Sources.KindOf(c.Key.App, name, change.Kind))
	if err != nil {
		return change, err
	}
	change.Values, err = decodeValues(body, fields, call.Fields{"enabled": &change.Enabled, "kind": &change.Kind})
	return change, err
}

// sourceRoutes returns the calls about one source beside its settings.
func (a *API) sourceRoutes() []call.Route {
	const one = "/v1/sources/{source}/"
	named := func(serve func(c *call.Call, name string) error) func(*call.Call) error {
		return settings[ofKind[sourceJSON]]{name: "source"}.named(serve)
	}
	act := func(did string, change source.Change) call.Route {
		return call.Route{Pattern: "POST " + one + did, Role: access.Admin, Operator: call.AnyApp, Action: "source." + did, Serve: named(func(c *call.Call, name string) error {
			info, err := a.Sources.Get(c.Key.App, name)
			if err != nil {
				return err
			}
			change.Private = info.Private
			if info, _, err = a.Sources.Set(c.Ctx, c.Key.App, name, change); err != nil {
				return err
			}
			a.Log.InfoContext(c.Ctx, "source changed", "app", c.Key.App, "source", name, "did", did, "by", c.Key.Key)
			return c.Value(http.StatusOK, viewSource(&info))
		})}
	}
	on, off := true, false
	return []call.Route{
		act("pause", source.Change{Enabled: &off}), act("resume", source.Change{Enabled: &on}), act("resync", source.Change{Enabled: &on, Resync: true}),
		a.previewRoute(),
		{Pattern: "GET " + one + "quarantine", Role: access.Read, Operator: call.AnyApp, Serve: a.listQuarantine},
		{Pattern: "DELETE " + one + "quarantine", Role: access.Admin, Operator: call.AnyApp, Action: "source.empty-quarantine", Serve: named(func(c *call.Call, name string) error {
			if err := a.Sources.EmptyQuarantine(c.Ctx, c.Key.App, name); err != nil {
				return err
			}
			return c.NoContent()
		})},
	}
}

func (a *API) previewRoute() call.Route {
	return call.Route{
		Pattern: "POST /v1/sources/{source}/preview", Role: access.Admin, Operator: call.AnyApp, Action: "source.preview",
		Serve: settings[ofKind[sourceJSON]]{name: "source"}.named(a.previewSource),
	}
}

// previewSource shows what rows would become after a change like that of a PUT; without a body, as the source is stored.
func (a *API) previewSource(c *call.Call, name string) error {
	body, err := call.ReadBody(c.R, nil, maxSourceBody)
	if err != nil {
		return err
	}
	var change source.Change
	if len(body) > 0 {
		if change, err = a.sourceChange(c, name, body); err != nil {
			return err
		}
	}
	preview, err := a.Sources.Preview(c.Ctx, c.Key.App, name, change)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, preview)
}

// leftJSON says what a deleted source has left at its server, where a person must remove it.
type leftJSON struct {
	Left string `json:"left"`
}

// setAsideJSON is an entry in quarantine.
type setAsideJSON struct {
	Number     string      `json:"number"`
	At         call.Moment `json:"at"`
	From       string      `json:"from"`
	Why        string      `json:"why"`
	Text       string      `json:"text,omitempty"`
	TextBase64 string      `json:"text_base64,omitempty"`
}

func viewSetAside(e *source.SetAside) setAsideJSON {
	v := setAsideJSON{Number: strconv.FormatInt(e.Number, 10), At: call.Moment(e.At), From: e.From, Why: e.Why}
	if utf8.Valid(e.Text) {
		v.Text = string(e.Text)
	} else {
		v.TextBase64 = base64.StdEncoding.EncodeToString(e.Text)
	}
	return v
}

func (a *API) listQuarantine(c *call.Call) error {
	q, limit, err := c.ListParams()
	if err != nil {
		return err
	}
	var below int64
	if cursor := q.Get("cursor"); cursor != "" {
		if below, err = strconv.ParseInt(cursor, 10, 64); err != nil || below < 1 {
			return notification.BadField("cursor", "is none that a former page had")
		}
	}
	list, err := a.Sources.Quarantine(c.Ctx, c.Key.App, c.R.PathValue("source"), below, limit)
	if err != nil {
		return err
	}
	next := ""
	if len(list) == limit {
		next = strconv.FormatInt(list[limit-1].Number, 10)
	}
	l := call.NewList[setAsideJSON](len(list), next)
	l.Items = append(l.Items, views(list, viewSetAside)...)
	return c.Value(http.StatusOK, l)
}
