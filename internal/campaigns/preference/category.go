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
)

// Category holds an app's settings for one of its categories.
type Category struct {
	Critical bool  `json:"critical,omitempty"`      // preferences are not asked
	Limit    Limit `json:"escalate_limit,omitzero"` // the zero one is none
}

// Limit is the number of escalation steps that may begin for a recipient within a period, which ends with the step in question.
type Limit struct {
	Count int
	Per   time.Duration
}

var units = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": MaxPer}

// ParseLimit reads "10/h".
func ParseLimit(s string) (Limit, error) {
	count, unit, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(count, 10, 16)
	per := units[unit]
	if !ok || err != nil || per == 0 || n < 1 || n > maxCount {
		return Limit{}, notification.BadField("escalate_limit", "%.40q is not a limit; write it like 3/m, 10/h or 20/d, with a number from 1 to %d", s, maxCount)
	}
	return Limit{Count: int(n), Per: per}, nil
}

// String formats the limit as ParseLimit reads it; the zero limit is empty.
func (l Limit) String() string {
	for unit, per := range units {
		if l.Per == per {
			return strconv.Itoa(l.Count) + "/" + unit
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
	*l, err = ParseLimit(string(b))
	return err
}
