package preference

import (
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Bounds of a Limit: each step that counts is stored as a row for the limit's period.
const (
	maxCount = 1000
	MaxPer   = 24 * time.Hour
	// MaxCampaignPer bounds a limit of campaigns: the deliveries of all campaigns within the period are looked up.
	MaxCampaignPer = 30 * 24 * time.Hour
)

// Category holds an app's settings for one of its categories.
type Category struct {
	Critical bool  `json:"critical,omitempty"`      // preferences are not asked
	Limit    Limit `json:"escalate_limit,omitzero"` // the zero one is none

	Campaigns Limit  `json:"campaign_limit,omitzero"`   // campaigns that may reach one person; the zero one is none
	Excess    Excess `json:"campaign_beyond,omitempty"` // what becomes of a message beyond Campaigns

	Inbox  bool   `json:"inbox,omitempty"` // inboxes keep its notifications, unless a publish says otherwise
	Keep   Keep   `json:"keep,omitzero"`   // how long, unless a publish says otherwise; 0: the default
	Digest Digest `json:"digest,omitzero"` // gathers notifications
}

// Keep is how long inboxes keep notifications of a category.
type Keep time.Duration

// ParseKeep reads "30d".
func ParseKeep(s string) (Keep, error) {
	d, err := notification.ParseDuration(s)
	if err != nil {
		return 0, notification.BadField("keep", "%s", err)
	}
	return Keep(d), notification.CheckKeep("keep", d)
}

// String formats the time as it is read; 0 is empty.
func (k Keep) String() string {
	for _, unit := range []struct {
		name string
		d    time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if d := time.Duration(k); d > 0 && d%unit.d == 0 {
			return strconv.FormatInt(int64(d/unit.d), 10) + unit.name
		}
	}
	if k == 0 {
		return ""
	}
	return time.Duration(k).String()
}

// MarshalText implements encoding.TextMarshaler.
func (k Keep) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Keep) UnmarshalText(b []byte) (err error) {
	if *k = 0; len(b) > 0 {
		*k, err = ParseKeep(string(b))
	}
	return err
}

// Check refuses settings that contradict each other.
func (c *Category) Check() error {
	if c.Keep != 0 && !c.Inbox {
		return notification.BadField("keep", "is how long inboxes keep notifications of the category: set inbox as well")
	}
	return nil
}

// Kept tells whether inboxes keep what is published in a category, and how long; 0: the default.
func Kept(all map[string]Category, category string) (keep time.Duration, is bool) {
	if len(all) == 0 {
		return 0, false
	}
	c, there := all[category]
	if !there {
		c = all[Rest]
	}
	return time.Duration(c.Keep), c.Inbox
}

// Excess is what becomes of a campaign's message beyond a limit.
type Excess string

// Values of Excess.
const (
	Defer    Excess = ""         // it is sent when the limit allows
	Suppress Excess = "suppress" // it is not sent
)

// deferred is the name of Defer in the API.
const deferred = "defer"

// ParseExcess reads defer or suppress.
func ParseExcess(s string) (Excess, error) {
	switch s {
	case deferred:
		return Defer, nil
	case string(Suppress):
		return Suppress, nil
	}
	return "", notification.BadField("campaign_beyond", "%.40q is neither defer nor suppress", s)
}

func (e Excess) String() string {
	if e == Defer {
		return deferred
	}
	return string(e)
}

// Governing returns the settings of an app that hold for a category, and the name under which they are stored; empty: there are none.
func Governing(all map[string]Category, category string) (name string, c Category) {
	for _, name := range []string{category, Rest} {
		if c, there := all[name]; there {
			return name, c
		}
	}
	return "", Category{}
}

// Limit is a number of events within a period, which ends with the event in question: of escalation steps that begin for a recipient, or of
// campaigns that reach a person.
type Limit struct {
	Count int
	Per   time.Duration
}

var units = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": MaxPer}

// ParseLimit reads "10/h".
func ParseLimit(s string) (Limit, error) {
	l, ok := parseLimit(s)
	if _, whole := units[l.unit()]; !ok || !whole {
		return Limit{}, notification.BadField("escalate_limit", "%.40q is not a limit; write it like 3/m, 10/h or 20/d, with a number from 1 to %d", s, maxCount)
	}
	return l, nil
}

// ParseCampaignLimit reads "1/8h".
func ParseCampaignLimit(s string) (Limit, error) {
	l, ok := parseLimit(s)
	if !ok {
		return Limit{}, notification.BadField("campaign_limit", "%.40q is not a limit; write it like 1/8h, 3/d or 5/7d, with a number from 1 to %d and at most 30 days", s, maxCount)
	}
	return l, nil
}

func parseLimit(s string) (l Limit, ok bool) {
	count, period, _ := strings.Cut(s, "/")
	unit := strings.TrimLeft(period, "0123456789")
	n, err := strconv.ParseUint(count, 10, 16)
	times, many := uint64(1), error(nil)
	if unit != period {
		times, many = strconv.ParseUint(period[:len(period)-len(unit)], 10, 16)
	}
	l = Limit{Count: int(n), Per: time.Duration(times) * units[unit]} // of 16 bits
	return l, err == nil && many == nil && n >= 1 && n <= maxCount && l.Per > 0 && l.Per <= MaxCampaignPer
}

// String formats the limit as it is read; the zero limit is empty.
func (l Limit) String() string {
	if l.IsZero() {
		return ""
	}
	return strconv.Itoa(l.Count) + "/" + l.unit()
}

// unit writes the period, in the largest unit that divides it.
func (l Limit) unit() string {
	for _, unit := range []string{"d", "h", "m"} {
		if times := l.Per / units[unit]; times*units[unit] == l.Per && times == 1 {
			return unit
		} else if times*units[unit] == l.Per {
			return strconv.FormatInt(int64(times), 10) + unit
		}
	}
	return ""
}

// IsZero reports whether there is no limit.
func (l Limit) IsZero() bool { return l == Limit{} }

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*l = Limit{}
		return nil
	}
	*l, err = ParseCampaignLimit(string(b))
	return err
}
