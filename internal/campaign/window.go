package campaign

import (
	"sync"
	"time"
	_ "time/tzdata" // servers in containers have no time zones of their own

	"godwit.dev/godwit/internal/notification"
)

// quiet is QuietHours ready for use: minutes of the day and the zones to count them in.
type quiet struct {
	from, to int
	fixed    *time.Location // nil: the recipient's
	fallback *time.Location

	mu    sync.Mutex
	zones map[string]*time.Location // looked up before; nil: there is no such zone
}

// maxZones bounds what is remembered: there are some 600 names of time zones, so good ones never fill it.
const maxZones = 1000

// parse checks quiet hours.
func (q *QuietHours) parse() (*quiet, error) {
	w := new(quiet)
	var err error
	if w.from, err = clock("quiet_hours.from", q.From); err != nil {
		return nil, err
	}
	if w.to, err = clock("quiet_hours.to", q.To); err != nil {
		return nil, err
	}
	if w.from == w.to {
		return nil, notification.BadField("quiet_hours.to", "is the same as from: that would be the whole day or none of it")
	}
	if q.Timezone != "" && q.Timezone != "recipient" {
		if w.fixed, err = zone("quiet_hours.timezone", q.Timezone); err != nil {
			return nil, err
		}
	}
	w.fallback = time.UTC
	if q.Fallback != "" {
		if w.fallback, err = zone("quiet_hours.fallback", q.Fallback); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func zone(field, name string) (*time.Location, error) {
	l, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, notification.BadField(field, "%.60q is not a time zone like Europe/Oslo", name)
	}
	return l, nil
}

func clock(field, text string) (minutes int, err error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, notification.BadField(field, "%.20q is not a time of day like 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// next is when a message that is due at t may be sent to somebody in the named zone: t itself, or the end of the
// quiet hours that t falls into.
func (w *quiet) next(t time.Time, timezone string) time.Time {
	if w == nil {
		return t
	}
	local := t.In(w.location(timezone))
	minute := local.Hour()*60 + local.Minute()
	day := local.Day()
	switch {
	case w.from < w.to && (minute < w.from || minute >= w.to):
		return t
	case w.from > w.to && minute < w.from && minute >= w.to:
		return t
	case w.from > w.to && minute >= w.from:
		day++ // they end tomorrow
	}
	// time.Date settles clock changes: an hour that does not exist becomes the one after it.
	end := time.Date(local.Year(), local.Month(), day, w.to/60, w.to%60, 0, 0, local.Location())
	if !end.After(t) {
		return t
	}
	return end
}

func (w *quiet) location(timezone string) *time.Location {
	if w.fixed != nil {
		return w.fixed
	}
	if timezone == "" || timezone == "Local" {
		return w.fallback
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l, known := w.zones[timezone]
	if !known {
		l, _ = time.LoadLocation(timezone) // an unknown one is as good as none
		if w.zones == nil {
			w.zones = make(map[string]*time.Location)
		}
		if len(w.zones) < maxZones {
			w.zones[timezone] = l
		}
	}
	if l == nil {
		return w.fallback
	}
	return l
}
