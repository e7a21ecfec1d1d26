package operator

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Gateway stores the settings of an app's services for calls through the gateway.
type Gateway interface {
	Service(app, name string) (s access.Service, set bool)
	Services(app string) map[string]access.Service
	SetService(ctx context.Context, app, name string, s access.Service, must setting.Match) (access.Service, error)
	DeleteService(ctx context.Context, app, name string, must setting.Match) error
}

const maxServiceBody = 16 << 10

type serviceJSON struct {
	Service string         `json:"service"`
	Access  string         `json:"access"`
	Timeout string         `json:"timeout"`
	Split   map[string]int `json:"split"`
	Cookies bool           `json:"cookies"`
	Upload  string         `json:"upload,omitempty"`

	revised
}

// viewService shows a service's settings. A service without any has defaults, and no revision.
func viewService(name string, s access.Service, set bool) serviceJSON {
	v := serviceJSON{Service: name, Access: s.Access, Timeout: s.Timeout.String(), Split: s.Split, Cookies: s.Cookies, Upload: s.Upload}
	if v.Split == nil {
		v.Split = map[string]int{}
	}
	if set {
		v.revised = atRevision(setting.RevisionOf(s))
	}
	return v
}

// services returns the calls below /v1/gateway. The list contains only services whose settings somebody has set. Other services, and fields
// that a PUT omits, have the defaults.
func (a *API) services() settings[serviceJSON] {
	return settings[serviceJSON]{
		kind: "service", what: "gateway service", path: "/v1/gateway", name: "service", most: maxServiceBody, check: access.CheckService,
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Gateway.DeleteService(c.Ctx, c.Key.App, name, must)
		},
		list: func(c *call.Call) (items []serviceJSON, err error) {
			all := a.Gateway.Services(c.Key.App)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				items = append(items, viewService(name, all[name], true))
			}
			return items, nil
		},
		get: func(c *call.Call, name string) (serviceJSON, error) {
			s, set := a.Gateway.Service(c.Key.App, name)
			return viewService(name, s, set), nil
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v serviceJSON, created bool, err error) {
			s, err := decodeService(body)
			if err == nil {
				s, err = a.Gateway.SetService(c.Ctx, c.Key.App, name, s, must)
			}
			return viewService(name, s, true), false, err
		},
	}
}

func decodeService(body []byte) (s access.Service, err error) {
	err = call.Fields{
		"access": &s.Access, "cookies": &s.Cookies, "split": &s.Split, "upload": &s.Upload,
		"timeout": durationInto(&s.Timeout, "10s"),
	}.Decode(body)
	return s, err
}

// durationInto reads a duration: text, or whole seconds as a number.
func durationInto(d *time.Duration, like string) call.Reader {
	return func(field string, raw json.RawMessage) (err error) {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if *d, err = notification.ParseDuration(text); err != nil {
			return notification.BadField(field, "must be a duration like %s", like)
		}
		return nil
	}
}
