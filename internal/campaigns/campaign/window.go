package campaign

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
)

// quietTimes is the prepared form of QuietHours: hours of the day, and the time zones in which they apply.
type quietTimes struct {
	hours    quiet.Hours
	fixed    *time.Location // nil: the recipient's
	fallback *time.Location
}

// quietTimes prepares the campaign's quiet hours; nil: it has none.
func (s *Spec) quietTimes() (*quietTimes, error) {
	if s.Quiet == nil {
		return nil, nil // a nil one has no quiet hours
	}
	const field = "quiet_hours"
	q, w := s.Quiet, &quietTimes{}
	var err error
	if w.hours, err = quiet.Parse(field, q.From, q.To); err != nil {
		return nil, err
	}
	if q.Timezone != "" && q.Timezone != "recipient" {
		if w.fixed, err = quiet.CheckZone(field+".timezone", q.Timezone); err != nil {
			return nil, err
		}
	}
	w.fallback, err = s.fallback()
	return w, err
}

// fallback returns the time zone of recipients who have none: one for quiet hours and local times, wherever it is given; UTC if it is not.
func (s *Spec) fallback() (*time.Location, error) {
	field, name := "quiet_hours.fallback", ""
	if s.Quiet != nil {
		name = s.Quiet.Fallback
	}
	if name == "" && s.Local != nil {
		field, name = "local_time.fallback", s.Local.Fallback
	}
	if name == "" {
		return time.UTC, nil
	}
	return quiet.CheckZone(field, name)
}

// checkFallback checks that quiet hours and local times agree about the zone of recipients who have none.
func (s *Spec) checkFallback() error {
	if s.Quiet == nil || s.Local == nil {
		return nil
	}
	if q, l := s.Quiet.Fallback, s.Local.Fallback; q != "" && l != "" && q != l {
		return notification.BadField("quiet_hours.fallback", "is %.70q, and local_time.fallback %.70q: whose zone is not known has one; give one of them", q, l)
	}
	return nil
}

// Fallback is the name of the time zone of recipients who have none.
func (s *Spec) Fallback() string {
	if zone, err := s.fallback(); err == nil {
		return zone.String()
	}
	return time.UTC.String()
}

// zoneStep is the distance of time zones: all are whole quarters of an hour from UTC.
const zoneStep = 15 * time.Minute

// End returns when the last message is sent of a campaign that begins at a time and needs so long at its pace. Nobody gets one in quiet
// hours. If these are in each recipient's zone, end is for those who have none of them then, and latest for the zone in which they last longest;
// otherwise latest is zero.
func (s *Spec) End(begin time.Time, needs time.Duration) (end, latest time.Time) {
	spread := time.Duration(s.Spread)
	end = begin.Add(max(needs, spread))
	w, err := s.quietTimes()
	switch {
	case err != nil || w == nil:
	case w.fixed != nil:
		end = w.end(begin, needs, spread, w.fixed)
	default:
		for off := -mostBehind; off <= mostAhead; off += zoneStep {
			if at := w.end(begin, needs, spread, time.FixedZone("", int(off/time.Second))); at.After(latest) {
				latest = at
			}
		}
	}
	if end, latest = s.atMost(end), s.atMost(latest); !latest.After(end) {
		latest = time.Time{}
	}
	return end, latest
}

// atMost returns t, or the campaign's expiry if that is earlier: nothing is sent after it.
func (s *Spec) atMost(t time.Time) time.Time {
	if e := s.Expires; !e.IsZero() && e.Before(t) {
		return e
	}
	return t
}

// end returns when the last message is sent in a zone: those that wait for their turn rest in quiet hours, and those that are spread wait until
// these end.
func (w *quietTimes) end(begin time.Time, needs, spread time.Duration, in *time.Location) time.Time {
	paced, spaced := w.hours.Ahead(begin, needs, in), w.hours.Next(begin.Add(spread), in)
	if spaced.After(paced) {
		return spaced
	}
	return paced
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
