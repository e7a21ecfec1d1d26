// Package quiet defines hours of the day in which a person must not be disturbed, in time zones.
package quiet

import (
	"sync"
	"time"
	_ "time/tzdata" // containers often lack a time zone database

	"godwit.dev/godwit/internal/notify/notification"
)

// Hours begin and end at a time of the day; if the end is earlier than the beginning, it is on the next day. The zero value means no quiet
// hours.
type Hours struct{ from, to int } // minutes of the day

// Parse parses times of the day like 22:00. Errors name from or to as parts of field.
func Parse(field, from, to string) (h Hours, err error) {
	if h.from, err = clock(field+".from", from); err != nil {
		return Hours{}, err
	}
	if h.to, err = clock(field+".to", to); err != nil {
		return Hours{}, err
	}
	if h.from == h.to {
		return Hours{}, notification.BadField(field+".to", "is the same as from: that would be the whole day or none of it")
	}
	return h, nil
}

func clock(field, text string) (minutes int, err error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, notification.BadField(field, "%.20q is not a time of day like 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// Next returns when something due at t may be done: t itself, or the end of the quiet hours that contain t. Quiet hours begin at the first
// moment at which clocks show from, and end at the last moment at which they show to: where clocks go back over an hour, each of these
// times may occur twice. For a time that clocks skip, the moment at which they go forward counts.
func (h Hours) Next(t time.Time, in *time.Location) time.Time {
	if h == (Hours{}) {
		return t
	}
	year, month, today := t.In(in).Date()
	// Yesterday's quiet hours may still last; where clocks go back over midnight, tomorrow's may have begun already.
	for day := today - 1; day <= today+1; day++ {
		last := day
		if h.from > h.to {
			last++ // they end on the next day
		}
		if begin, _ := moments(year, month, day, h.from, in); begin.After(t) {
			continue
		}
		if _, end := moments(year, month, last, h.to, in); end.After(t) {
			return end
		}
	}
	return t
}

// moments returns the first and the last moment at which clocks show a minute of a day. If clocks skip this minute, both are the moment at
// which they go forward.
func moments(year int, month time.Month, day, minute int, in *time.Location) (first, last time.Time) {
	t := time.Date(year, month, day, minute/60, minute%60, 0, 0, in)
	begins, ends := t.ZoneBounds()
	wall := time.Date(year, month, day, minute/60, minute%60, 0, 0, time.UTC)
	switch shown := clockOf(t); {
	case shown.After(wall): // time.Date used the offset before the change, and returned a time after the change
		return begins, begins
	case shown.Before(wall):
		return ends, ends
	}
	first, last = t, t
	if earlier, ok := shows(wall, begins.Add(-1)); ok && !begins.IsZero() && earlier.Before(begins) {
		first = earlier
	}
	if later, ok := shows(wall, ends); ok && !ends.IsZero() && !later.Before(ends) {
		last = later
	}
	return first, last
}

// shows returns the moment of a wall time according to the offset that applies at another moment; ok reports whether the same offset
// applies at both.
func shows(wall, at time.Time) (t time.Time, ok bool) {
	_, offset := at.Zone()
	t = wall.Add(-time.Duration(offset) * time.Second).In(at.Location())
	_, same := t.Zone()
	return t, same == offset
}

// clockOf returns the local time at a moment, as if it were UTC.
func clockOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// At returns the first moment at or after a date and time of the day in a time zone: see Hours.
func At(wall time.Time, in *time.Location) time.Time {
	first, _ := moments(wall.Year(), wall.Month(), wall.Day(), wall.Hour()*60+wall.Minute(), in)
	return first
}

const (
	maxZone  = 64   // bytes of a time zone's name; the longest has about 30
	maxZones = 1000 // in the cache: there are about 600, so valid names never fill it
)

// zones caches time zones: looking one up reads a file.
var zones struct {
	sync.Mutex
	known map[string]*time.Location
}

// Zone returns a time zone like Europe/Oslo; nil: there is none of that name. The machine's own zone, Local, does not count.
func Zone(name string) *time.Location {
	if name == "" || name == "Local" || len(name) > maxZone {
		return nil
	}
	zones.Lock()
	defer zones.Unlock()
	if l := zones.known[name]; l != nil {
		return l
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	if zones.known == nil {
		zones.known = make(map[string]*time.Location)
	}
	if len(zones.known) < maxZones {
		zones.known[name] = l
	}
	return l
}

// CheckZone returns an error if name is not a time zone.
func CheckZone(field, name string) (*time.Location, error) {
	if l := Zone(name); l != nil {
		return l, nil
	}
	return nil, notification.BadField(field, "%.70q is not a time zone like Europe/Oslo", name)
}
