package form

import (
	"encoding/json"
	"errors"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// MaxPreferences limits the body with preferences, in bytes: it fits the largest number of categories, with the longest names and every
// channel.
const MaxPreferences = 32 << 10

// Preferences reads a recipient's preferences, and checks them.
func Preferences(body []byte) (p preference.Preferences, err error) {
	err = call.Fields{
		"categories": call.Reader(func(field string, raw json.RawMessage) error {
			p.Categories = make(map[string]preference.Choice)
			return call.Members(field, raw, func(name string, raw json.RawMessage) error {
				if err := preference.CheckCategory(field, name); err != nil {
					return err
				}
				at := field + "." + name
				if raw[0] != '{' {
					return call.WrongType(at, "an object", raw)
				}
				choice, err := readChoice(raw)
				p.Categories[name] = choice
				return below(at, err)
			})
		}),
		"quiet_hours": &p.Quiet, "timezone": &p.Timezone,
	}.DecodeOrNull(body)
	if err != nil {
		return p, err
	}
	return p, p.Check()
}

func readChoice(raw json.RawMessage) (c preference.Choice, err error) {
	var names []string
	if err := (call.Fields{"channels": call.Texts(&names, len(push.Channels()), nil)}).Decode(raw); err != nil {
		return c, err
	}
	if names != nil {
		c.Channels = make([]push.Channel, len(names))
	}
	for i, n := range names {
		c.Channels[i] = push.Channel(n)
	}
	return c, nil
}

// below adds the name of the enclosing member to an error.
func below(field string, err error) error {
	var bad *notification.FieldError
	if errors.As(err, &bad) {
		return notification.BadField(field+"."+bad.Field, "%s", bad.Problem)
	}
	return err
}

// PreferencesJSON is the form of preferences in answers; it can be sent back unchanged.
type PreferencesJSON struct {
	Categories map[string]preference.Choice `json:"categories"`
	Quiet      *preference.Hours            `json:"quiet_hours"`
	Timezone   *string                      `json:"timezone"`
}

// ViewPreferences shows a recipient's.
func ViewPreferences(p *preference.Preferences) PreferencesJSON {
	v := PreferencesJSON{Categories: p.Categories, Quiet: p.Quiet, Timezone: call.OrNull(p.Timezone)}
	if v.Categories == nil {
		v.Categories = map[string]preference.Choice{}
	}
	return v
}
