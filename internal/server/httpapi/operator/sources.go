package operator

import (
	"context"
	"encoding/json"
	"net/http"

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

func sourceOf(c *call.Call) string { return c.R.PathValue("source") }

// ListSources is GET /v1/sources. There are few: they are one page.
func (a *API) ListSources(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	infos := a.Sources.List(c.Key.App)
	l := call.NewList[sourceJSON](len(infos), "")
	for i := range infos {
		l.Items = append(l.Items, viewSource(&infos[i]))
	}
	return c.Value(http.StatusOK, l)
}

// GetSource is GET /v1/sources/{source}.
func (a *API) GetSource(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	info, err := a.Sources.Get(c.Key.App, sourceOf(c))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, viewSource(&info))
}

// PutSource is PUT /v1/sources/{source}. A password that is absent stays, since it cannot be read to be sent back; null takes it away.
func (a *API) PutSource(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxSourceBody)
	if err != nil {
		return err
	}
	change, err := decodeSource(body)
	if err != nil {
		return err
	}
	info, created, err := a.Sources.Set(c.Ctx, c.Key.App, sourceOf(c), change)
	if err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "source set", "app", c.Key.App, "source", sourceOf(c), "by", c.Key.Key)
	if created {
		return c.Value(http.StatusCreated, viewSource(&info))
	}
	return c.Value(http.StatusOK, viewSource(&info))
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

// DeleteSource is DELETE /v1/sources/{source}.
func (a *API) DeleteSource(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	if err := a.Sources.Delete(c.Ctx, c.Key.App, sourceOf(c)); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "source deleted", "app", c.Key.App, "source", sourceOf(c), "by", c.Key.Key)
	return c.NoContent()
}
