package operator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Categories stores an app's settings for its categories.
type Categories interface {
	Categories(app string) map[string]preference.Category
	SetCategory(ctx context.Context, app, name string, c preference.Category, must setting.Match) error
	DeleteCategory(ctx context.Context, app, name string, must setting.Match) error
}

const maxCategoryBody = 1 << 10

type categoryJSON struct {
	Category string  `json:"category"`
	Critical bool    `json:"critical"`
	Limit    *string `json:"escalate_limit"`

	Campaigns string `json:"campaign_limit,omitempty"`
	Excess    string `json:"campaign_beyond,omitempty"` // with campaign_limit

	Inbox  bool        `json:"inbox,omitempty"`
	Keep   string      `json:"keep,omitempty"`
	Digest *digestJSON `json:"digest,omitempty"`

	revised
}

// digestJSON says how a category gathers.
type digestJSON struct {
	Window   string  `json:"window"`
	By       *string `json:"by"`
	Max      int     `json:"max"`
	Template *string `json:"template"`
}

func viewCategory(name string, c preference.Category) categoryJSON {
	v := categoryJSON{Category: name, Critical: c.Critical, Limit: call.OrNull(c.Limit.String()), revised: atRevision(setting.RevisionOf(c))}
	v.Inbox, v.Keep = c.Inbox, c.Keep.String()
	if !c.Campaigns.IsZero() {
		v.Campaigns, v.Excess = c.Campaigns.String(), c.Excess.String()
	}
	if d := c.Digest; !d.IsZero() {
		v.Digest = &digestJSON{Window: d.WindowText(), By: call.OrNull(d.By), Max: d.Most(), Template: call.OrNull(d.Template)}
	}
	return v
}

// readDigest reads how a category gathers.
func readDigest(d *preference.Digest) call.Reader {
	return func(field string, raw json.RawMessage) error {
		if raw[0] != '{' {
			return call.WrongType(field, "an object", raw)
		}
		err := call.Fields{
			"window": call.Reader(func(_ string, raw json.RawMessage) (err error) {
				text := strings.Trim(string(raw), `"`)
				if d.Window, err = notification.ParseDuration(text); err != nil {
					return notification.BadField("window", "must be a duration like 10m")
				}
				return nil
			}),
			"by": &d.By, "max": &d.Max, "template": &d.Template,
		}.DecodeOrNull(raw)
		if bad, ok := errors.AsType[*notification.FieldError](err); ok {
			return notification.BadField(field+"."+bad.Field, "%s", bad.Problem)
		}
		if err != nil {
			return err
		}
		return d.Check()
	}
}

// categories returns the calls below /v1/categories. A PUT resets omitted settings to their defaults.
func (a *API) categories() settings[categoryJSON] {
	return settings[categoryJSON]{
		kind: "category", path: "/v1/categories", name: "category", most: maxCategoryBody,
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Settings.DeleteCategory(c.Ctx, c.Key.App, name, must)
		},
		check: func(name string) error { return preference.CheckCategory("category", name) },
		list: func(c *call.Call) (items []categoryJSON, err error) {
			all := a.Settings.Categories(c.Key.App)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				items = append(items, viewCategory(name, all[name]))
			}
			return items, nil
		},
		get: func(c *call.Call, name string) (v categoryJSON, err error) {
			said, there := a.Settings.Categories(c.Key.App)[name]
			if !there {
				return v, access.ErrUnknownCategory
			}
			return viewCategory(name, said), nil
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v categoryJSON, created bool, err error) {
			said, err := decodeCategory(body)
			if err == nil {
				err = a.Settings.SetCategory(c.Ctx, c.Key.App, name, said, must)
			}
			return viewCategory(name, said), false, err
		},
	}
}

func decodeCategory(body []byte) (said preference.Category, err error) {
	err = call.Fields{
		"critical": &said.Critical,
		"escalate_limit": call.Text(func(_, text string) (err error) {
			said.Limit, err = preference.ParseLimit(text)
			return err
		}),
		"campaign_limit": call.Text(func(_, text string) (err error) {
			said.Campaigns, err = preference.ParseCampaignLimit(text)
			return err
		}),
		"campaign_beyond": call.Text(func(_, text string) (err error) {
			said.Excess, err = preference.ParseExcess(text)
			return err
		}),
		"inbox": &said.Inbox,
		"keep": call.Reader(func(_ string, raw json.RawMessage) (err error) {
			said.Keep, err = preference.ParseKeep(strings.Trim(string(raw), `"`))
			return err
		}),
		"digest": readDigest(&said.Digest),
	}.DecodeOrNull(body)
	if err == nil {
		err = said.Check()
	}
	return said, err
}
