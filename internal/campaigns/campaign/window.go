package campaign

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/quiet"
)

// quietTimes is the prepared form of QuietHours: hours of the day, and the time zones in which they apply.
type quietTimes struct {
	hours    quiet.Hours
	fixed    *time.Location // nil: the recipient's
	fallback *time.Location
}

// parse checks quiet hours.
func (q *QuietHours) parse() (*quietTimes, error) {
	const field = "quiet_hours"
	w := &quietTimes{fallback: time.UTC}
	var err error
	if w.hours, err = quiet.Parse(field, q.From, q.To); err != nil {
		return nil, err
	}
	if q.Timezone != "" && q.Timezone != "recipient" {
		if w.fixed, err = quiet.CheckZone(field+".timezone", q.Timezone); err != nil {
			return nil, err
		}
	}
	if q.Fallback != "" {
		if w.fallback, err = quiet.CheckZone(field+".fallback", q.Fallback); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// next returns when a message that is due at t may be sent to a person in the named time zone: t itself, or the end of the quiet hours that
// contain t.
func (w *quietTimes) next(t time.Time, timezone string) time.Time {
	if w == nil {
		return t
	}
	in := w.fixed
	if in == nil {
		in = quiet.Zone(timezone)
	}
	if in == nil {
		in = w.fallback
	}
	return w.hours.Next(t, in)
}
