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

	Digest Digest `json:"digest,omitzero"` // gathers notifications
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
	l = Limit{Count: int(n), Per: time.Duration(times) * units[unit]} //nolint:gosec // of 16 bits
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
