// Package quiet holds hours of the day in which nobody is to be disturbed, and the time zones that they are counted in.
package quiet

import (
	"sync"
	"time"
	_ "time/tzdata" // servers in containers have no time zones of their own

	"godwit.dev/godwit/internal/notification"
)

// Hours are from one time of the day until another, of the next day where that is the earlier one. The zero value is none.
type Hours struct{ from, to int } // minutes of the day

// Parse reads times of the day like 22:00. Errors name from and to below the field.
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

// Next is when what is due at t may be done: t itself, or the end of the quiet hours that t falls into.
func (h Hours) Next(t time.Time, in *time.Location) time.Time {
	if h == (Hours{}) {
		return t
	}
	local := t.In(in)
	minute := local.Hour()*60 + local.Minute()
	day := local.Day()
	switch {
	case h.from < h.to && (minute < h.from || minute >= h.to):
		return t
	case h.from > h.to && minute < h.from && minute >= h.to:
		return t
	case h.from > h.to && minute >= h.from:
		day++ // they end tomorrow
	}
	// time.Date settles clock changes: an hour that does not exist becomes the one after it.
	end := time.Date(local.Year(), local.Month(), day, h.to/60, h.to%60, 0, 0, in)
	if !end.After(t) {
		return t
	}
	return end
}

const (
	maxZone  = 64   // bytes of a time zone's name; the longest has some 30
	maxZones = 1000 // remembered: there are some 600, so good ones never fill it
)

// zones remembers time zones: looking one up reads a file.
var zones struct {
	sync.Mutex
	known map[string]*time.Location
}

// Zone finds a time zone like Europe/Oslo, nil if there is none of that name. That of the machine, Local, is none.
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

// CheckZone refuses what is no time zone.
func CheckZone(field, name string) (*time.Location, error) {
	if l := Zone(name); l != nil {
		return l, nil
	}
	return nil, notification.BadField(field, "%.70q is not a time zone like Europe/Oslo", name)
}
