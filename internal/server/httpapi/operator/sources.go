package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sources bring an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, kind string) (source.Info, error)
	// Fields are those of a kind.
	Fields(kind string) ([]setting.Field, error)
	Set(ctx context.Context, app, kind string, c source.Change) (info source.Info, created bool, err error)
	Delete(ctx context.Context, app, kind string) error
}

const maxSourceBody = 256 << 10 // a thousand names

type sourceJSON struct {
	of *source.Info // its kind and the values of that come first

	Credentials []string     `json:"credentials"` // names of those that are set
	Enabled     bool         `json:"enabled"`
	State       source.State `json:"state"`
	Finding     string       `json:"finding,omitempty"`
	LastError   string       `json:"last_error,omitempty"`
	Failing     call.Moment  `json:"failing_since"`
	Counts      countsJSON   `json:"counts"`
	CreatedAt   call.Moment  `json:"created_at"`
	UpdatedAt   call.Moment  `json:"updated_at"`
}

type countsJSON struct {
	Stored      uint64 `json:"stored"`
	Duplicate   uint64 `json:"duplicate"`
	Expired     uint64 `json:"expired"`
	Quarantined uint64 `json:"quarantined"`
	Full        uint64 `json:"full"`
}

func viewSource(i *source.Info) sourceJSON {
	return sourceJSON{
		of: i, Credentials: i.Credentials, Enabled: i.Enabled, State: i.State, Finding: i.Finding, LastError: i.Error,
		Failing: call.Moment(i.Since), Counts: countsJSON(i.Counts), CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
	}
}

// MarshalJSON writes the kind and its values without secrets, then the fields of every source.
func (v sourceJSON) MarshalJSON() ([]byte, error) {
	type rest sourceJSON
	every, err := json.Marshal(rest(v))
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, `{"source":%q`, v.of.Kind)
	for _, f := range v.of.Fields {
		if !f.Secret {
			out = fmt.Appendf(out, `,%q:%s`, f.Name, v.of.Values.Shown(f))
		}
	}
	return append(append(out, ','), every[1:]...), nil
}

// sources are the calls below /v1/sources. A PUT leaves an absent password as it is, since it cannot be read to be sent back; null takes it
// away.
func (a *API) sources() settings[sourceJSON] {
	return settings[sourceJSON]{
		kind: "source", path: "/v1/sources", name: "source", most: maxSourceBody,
		drop: func(c *call.Call, name string) error { return a.Sources.Delete(c.Ctx, c.Key.App, name) },
		list: func(c *call.Call) ([]sourceJSON, error) { return views(a.Sources.List(c.Key.App), viewSource), nil },
		get: func(c *call.Call, name string) (sourceJSON, error) {
			info, err := a.Sources.Get(c.Key.App, name)
			return viewSource(&info), err
		},
		set: func(c *call.Call, name string, body []byte) (v sourceJSON, created bool, err error) {
			fields, err := a.Sources.Fields(name)
			if err != nil {
				return v, false, err
			}
			change, err := decodeSource(body, fields)
			if err != nil {
				return v, false, err
			}
			info, created, err := a.Sources.Set(c.Ctx, c.Key.App, name, change)
			return viewSource(&info), created, err
		},
	}
}

func decodeSource(body []byte, fields []setting.Field) (change source.Change, err error) {
	change.Values = setting.Values{}
	members := call.Fields{"enabled": &change.Enabled}
	for _, f := range fields {
		members[f.Name] = valueOf(f, change.Values)
	}
	return change, members.Decode(body)
}

// valueOf reads the value of a field.
func valueOf(f setting.Field, into setting.Values) call.Reader {
	return func(field string, raw json.RawMessage) (err error) {
		var text *access.Secret
		var list []string
		var on bool
		switch {
		case f.Secret:
			if err = password(&text)(field, raw); err == nil {
				setting.Put(into, field, string(*text))
			}
		case f.Type == setting.List:
			err = call.Texts(&list, f.Most, call.Word)(field, raw)
			setting.Put(into, field, list)
		case f.Type == setting.Bool:
			err = call.ReadValue(field, raw, &on)
			into[field] = raw
		default:
			err = call.Text(func(_, s string) error {
				setting.Put(into, field, s)
				return nil
			})(field, raw)
		}
		return err
	}
}

// password reads a secret that is given anew; null takes it away.
func password(into **access.Secret) call.Reader {
	return func(field string, raw json.RawMessage) error {
		var given string
		if string(raw) != "null" {
			if err := call.ReadValue(field, raw, &given); err != nil {
				return err
			}
		}
		*into = (*access.Secret)(&given)
		return nil
	}
}
