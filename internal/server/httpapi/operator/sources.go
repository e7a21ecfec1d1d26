package operator

import (
	"context"
	"encoding/json"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Sources bring an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, kind string) (source.Info, error)
	Set(ctx context.Context, app, kind string, c source.Change) (info source.Info, created bool, err error)
	Delete(ctx context.Context, app, kind string) error
}

const (
	maxSourceBody = 256 << 10 // a thousand names
	maxSourceURLs = 16
	maxSourceOf   = 1_000
)

type sourceJSON struct {
	Source      string       `json:"source"`
	URLs        []string     `json:"urls"`
	Recipients  []string     `json:"recipients"`  // whose streams are read; none: all
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
	v := sourceJSON{
		Source: i.Kind, URLs: i.URLs, Recipients: i.Recipients, Credentials: []string{}, Enabled: i.Enabled, State: i.State, Finding: i.Finding, LastError: i.Error,
		Failing: call.Moment(i.Since), Counts: countsJSON(i.Counts), CreatedAt: call.Moment(i.CreatedAt), UpdatedAt: call.Moment(i.UpdatedAt),
	}
	if v.Recipients == nil {
		v.Recipients = []string{}
	}
	if i.Password != "" {
		v.Credentials = []string{"password"}
	}
	return v
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
			change, err := decodeSource(body)
			if err != nil {
				return v, false, err
			}
			info, created, err := a.Sources.Set(c.Ctx, c.Key.App, name, change)
			return viewSource(&info), created, err
		},
	}
}

func decodeSource(body []byte) (change source.Change, err error) {
	err = call.Fields{
		"urls": call.Texts(&change.URLs, maxSourceURLs, call.Word), "recipients": call.Texts(&change.Recipients, maxSourceOf, call.Word), "enabled": &change.Enabled,
		"password": password(&change.Password),
	}.Decode(body)
	return change, err
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
