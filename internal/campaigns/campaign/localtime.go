package campaign

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
)

// LocalTime sends a campaign at one date and time of the day where each recipient is.
type LocalTime struct {
	At       string `json:"at"`                 // like 2026-12-01T09:00, without a zone
	Fallback string `json:"fallback,omitempty"` // time zone of recipients who have none; empty: that of the quiet hours, or else UTC
	Passed   string `json:"passed,omitempty"`   // for zones in which it has passed when the campaign begins; empty: NextDay
}

// The choices for recipients in whose zone the time has passed when the campaign begins.
const (
	NextDay = "next_day"
	AtOnce  = "now"
)

// Clocks are at most so far from UTC.
const (
	mostAhead  = 14 * time.Hour // Kiritimati
	mostBehind = 12 * time.Hour
)

// localTimes is the prepared form of LocalTime.
type localTimes struct {
	wall     time.Time // as if it were UTC
	fallback *time.Location
	atOnce   bool
}

// localTimes prepares the local time of a campaign that has one.
func (s *Spec) localTimes() (*localTimes, error) {
	const field = "local_time"
	l := s.Local
	t := &localTimes{atOnce: l.Passed == AtOnce}
	var err error
	if t.wall, err = time.Parse("2006-01-02T15:04", l.At); err != nil {
		return nil, notification.BadField(field+".at", "%.40q is not a date and a time of the day like 2026-12-01T09:00, without a zone", l.At)
	}
	if t.fallback, err = s.fallback(); err != nil {
		return nil, err
	}
	switch l.Passed {
	case "", NextDay, AtOnce:
		return t, nil
	}
	return nil, notification.BadField(field+".passed", "%.40q is none of next_day, now", l.Passed)
}

// begin returns when the first recipient may be due: when it is that time in the easternmost zone, or now.
func (t *localTimes) begin(now time.Time) time.Time {
	if first := t.wall.Add(-mostAhead); first.After(now) {
		return first
	}
	return now
}

// end returns when it has been that time everywhere.
func (t *localTimes) end() time.Time { return t.wall.Add(mostBehind) }

// last returns when the last recipient may be due, in a campaign that begins at start: where the time has passed by then, a day later.
func (t *localTimes) last(start time.Time) time.Time {
	last, later := t.end(), start.Add(24*time.Hour)
	if !t.atOnce && start.After(t.wall.Add(-mostAhead)) && later.After(last) {
		return later
	}
	return last
}

// due returns when a recipient in a time zone is due, in a campaign that begins at start.
func (t *localTimes) due(start time.Time, zone string) time.Time {
	in := quiet.Zone(zone)
	if in == nil {
		in = t.fallback
	}
	at := quiet.At(t.wall, in)
	if t.atOnce && at.Before(start) {
		return start
	}
	for day := t.wall; at.Before(start); {
		day = day.AddDate(0, 0, 1)
		at = quiet.At(day, in)
	}
	return at
}

// checkLocal checks the local time of a campaign.
func (s *Spec) checkLocal(now time.Time) error {
	if s.Local == nil {
		return nil
	}
	t, err := s.localTimes()
	switch {
	case err != nil:
		return err
	case t.end().Before(now):
		return &notification.FieldError{Field: "local_time.at", Problem: "has passed everywhere", Lapsed: true}
	case t.wall.Sub(now) > MaxAhead:
		return notification.BadField("local_time.at", "is more than a year ahead")
	case s.Decides():
		return notification.BadField("decide_after", "cannot be combined with a local time: zones would get the better variant before others have got any")
	}
	return nil
}

// beginsAt returns when a campaign begins for which sendAt was asked; zero: when somebody starts it.
func (s *Spec) beginsAt(sendAt, now time.Time) (time.Time, error) {
	if s.Local == nil {
		return sendAt, nil
	}
	if !sendAt.IsZero() {
		return sendAt, notification.BadField("send_at", "is the time in one zone, and local_time that in each recipient's; give one of them")
	}
	t, err := s.localTimes()
	if err != nil {
		return sendAt, err
	}
	return t.begin(now), nil
}

// LocalSpan returns from when to when a campaign with a local time is sent; ok is false without one.
func (s *Spec) LocalSpan(now time.Time) (from, to time.Time, ok bool) {
	if s.Local == nil {
		return from, to, false
	}
	t, err := s.localTimes()
	if err != nil {
		return from, to, false
	}
	from = t.begin(now)
	return from, t.last(from), true
}
