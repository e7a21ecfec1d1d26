package operator

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
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

	Inbox bool   `json:"inbox,omitempty"`
	Keep  string `json:"keep,omitempty"`

	revised
}

func viewCategory(name string, c preference.Category) categoryJSON {
	v := categoryJSON{Category: name, Critical: c.Critical, Limit: call.OrNull(c.Limit.String()), revised: atRevision(setting.RevisionOf(c))}
	v.Inbox, v.Keep = c.Inbox, c.Keep.String()
	if !c.Campaigns.IsZero() {
		v.Campaigns, v.Excess = c.Campaigns.String(), c.Excess.String()
	}
	return v
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
	}.DecodeOrNull(body)
	if err == nil {
		err = said.Check()
	}
	return said, err
}
