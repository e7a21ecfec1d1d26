// Package preference decides whether a step of an escalation may start. It considers the recipients' wishes about which channels may reach
// them outside their sessions, and an app's settings for its categories.
package preference

import (
	"maps"
	"slices"
	"strconv"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// MaxCategories limits the number of categories for which a recipient or an app has settings: people choose on a page of switches.
const MaxCategories = 64

// Rest is the entry for every category without an entry of its own, and for notifications without a category.
const Rest = "*"

// Preferences are one recipient's. The zero value is the default: every channel, at any time. Preferences do not apply to sessions: live
// delivery does not disturb people.
type Preferences struct {
	Categories map[string]Choice `json:"categories,omitempty"`
	Quiet      *Hours            `json:"quiet_hours,omitempty"`
	Timezone   string            `json:"timezone,omitempty"` // of the quiet hours
}

// Choice lists the channels that a category may use.
type Choice struct {
	Channels []push.Channel `json:"channels,omitzero"` // nil: all; empty: none
}

// Hours are the hours in which a recipient must not be disturbed.
type Hours struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// IsZero reports whether no preference is set.
func (p *Preferences) IsZero() bool {
	return len(p.Categories) == 0 && p.Quiet == nil && p.Timezone == ""
}

// Check validates the preferences. Its error is a *notification.FieldError.
func (p *Preferences) Check() error {
	if len(p.Categories) > MaxCategories {
		return notification.BadField("categories", "has %d members; at most %d are allowed", len(p.Categories), MaxCategories)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Categories)) {
		if err := CheckCategory("categories", name); err != nil {
			return err
		}
		if err := checkChannels("categories."+name+".channels", p.Categories[name].Channels); err != nil {
			return err
		}
	}
	if p.Timezone != "" {
		if _, err := quiet.CheckZone("timezone", p.Timezone); err != nil {
			return err
		}
	}
	if p.Quiet == nil {
		return nil
	}
	if _, err := quiet.Parse("quiet_hours", p.Quiet.From, p.Quiet.To); err != nil {
		return err
	}
	if p.Timezone == "" {
		return notification.BadField("timezone", "is required with quiet_hours, like Europe/Oslo")
	}
	return nil
}

// CheckCategory validates a category's name: it must be a valid name, or Rest.
func CheckCategory(field, name string) error {
	if name == Rest {
		return nil
	}
	return notification.CheckName(field, name)
}

func checkChannels(field string, list []push.Channel) error {
	for i, ch := range list {
		at := field + "[" + strconv.Itoa(i) + "]"
		switch {
		case ch == push.Live:
			return notification.BadField(at, "is live, which preferences do not touch: name only channels beyond it")
		case !ch.Known():
			return notification.BadField(at, "%.40q is not a channel", ch)
		case slices.Contains(list[:i], ch):
			return notification.BadField(at, "names %s twice", ch)
		}
	}
	return nil
}

// allow reports whether a category may use a channel.
func (p *Preferences) allow(category string, ch push.Channel) bool {
	choice, named := p.Categories[category]
	if !named {
		choice = p.Categories[Rest]
	}
	return choice.Channels == nil || slices.Contains(choice.Channels, ch)
}
