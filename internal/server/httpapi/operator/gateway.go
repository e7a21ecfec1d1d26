package operator

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Gateway is how an app's services are called through the gateway.
type Gateway interface {
	Service(app, name string) (s access.Service, set bool)
	Services(app string) map[string]access.Service
	SetService(ctx context.Context, app, name string, s access.Service) (access.Service, error)
	DeleteService(ctx context.Context, app, name string) error
}

const maxServiceBody = 16 << 10

type serviceJSON struct {
	Service string         `json:"service"`
	Access  string         `json:"access"`
	Timeout string         `json:"timeout"`
	Split   map[string]int `json:"split"`
	Cookies bool           `json:"cookies"`
}

func viewService(name string, s access.Service) serviceJSON {
	v := serviceJSON{Service: name, Access: s.Access, Timeout: s.Timeout.String(), Split: s.Split, Cookies: s.Cookies}
	if v.Split == nil {
		v.Split = map[string]int{}
	}
	return v
}

// ListServices is GET /v1/gateway: those that somebody has set. They are one page.
func (a *API) ListServices(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	all := a.Gateway.Services(c.Key.App)
	l := call.NewList[serviceJSON](len(all), "")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.Items = append(l.Items, viewService(name, all[name]))
	}
	return c.Value(http.StatusOK, l)
}

// GetService is GET /v1/gateway/{service}: of one that nobody has set, the defaults.
func (a *API) GetService(c *call.Call) error {
	name, err := serviceOf(c)
	if err != nil {
		return err
	}
	s, _ := a.Gateway.Service(c.Key.App, name)
	return c.Value(http.StatusOK, viewService(name, s))
}

// PutService is PUT /v1/gateway/{service}. Fields that are absent get their defaults.
func (a *API) PutService(c *call.Call) error {
	name, err := serviceOf(c)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxServiceBody)
	if err != nil {
		return err
	}
	var s access.Service
	err = call.Fields{
		"access": &s.Access, "cookies": &s.Cookies, "split": &s.Split,
		"timeout": call.Reader(func(field string, raw json.RawMessage) (err error) {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw) // whole seconds
			}
			if s.Timeout, err = notification.ParseDuration(text); err != nil {
				return notification.BadField(field, "must be a duration like 10s")
			}
			return nil
		}),
	}.Decode(body)
	if err != nil {
		return err
	}
	if s, err = a.Gateway.SetService(c.Ctx, c.Key.App, name, s); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "gateway service set", "app", c.Key.App, "service", name, "by", c.Key.Key)
	return c.Value(http.StatusOK, viewService(name, s))
}

// DeleteService is DELETE /v1/gateway/{service}: the defaults hold again.
func (a *API) DeleteService(c *call.Call) error {
	name, err := serviceOf(c)
	if err != nil {
		return err
	}
	if err := a.Gateway.DeleteService(c.Ctx, c.Key.App, name); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "gateway service deleted", "app", c.Key.App, "service", name, "by", c.Key.Key)
	return c.NoContent()
}

func serviceOf(c *call.Call) (string, error) {
	if _, err := c.Params(); err != nil {
		return "", err
	}
	name := c.R.PathValue("service")
	return name, access.CheckService(name)
}
