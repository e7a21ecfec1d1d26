package campaign

import (
	"errors"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

func TestALocalTimeIsDueWhenClocksShowIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		at       string
		fallback string
		passed   string
		start    string
		zone     string
		want     string
	}{
		{"the easternmost zone", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "Pacific/Kiritimati", "2026-11-30T19:00:00Z"},
		{"a zone east of UTC", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "Asia/Tokyo", "2026-12-01T00:00:00Z"},
		{"half an hour", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "Asia/Kolkata", "2026-12-01T03:30:00Z"},
		{"a zone west of UTC", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "America/New_York", "2026-12-01T14:00:00Z"},
		{"the westernmost zone", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "Etc/GMT+12", "2026-12-01T21:00:00Z"},
		{"no zone: UTC", "2026-12-01T09:00", "", "", "2026-11-30T19:00:00Z", "", "2026-12-01T09:00:00Z"},
		{"no zone: the campaign's", "2026-12-01T09:00", "Europe/Oslo", "", "2026-11-30T19:00:00Z", "", "2026-12-01T08:00:00Z"},
		{"a zone that does not exist", "2026-12-01T09:00", "Europe/Oslo", "", "2026-11-30T19:00:00Z", "Mars/Olympus", "2026-12-01T08:00:00Z"},
		{"passed: the next day", "2026-12-01T09:00", "", "", "2026-12-01T08:00:00Z", "Asia/Tokyo", "2026-12-02T00:00:00Z"},
		{"passed: the next day, said", "2026-12-01T09:00", "", NextDay, "2026-12-01T08:00:00Z", "Asia/Tokyo", "2026-12-02T00:00:00Z"},
		{"passed: at once", "2026-12-01T09:00", "", AtOnce, "2026-12-01T08:00:00Z", "Asia/Tokyo", "2026-12-01T08:00:00Z"},
		{"not passed: at its time", "2026-12-01T09:00", "", AtOnce, "2026-12-01T08:00:00Z", "America/New_York", "2026-12-01T14:00:00Z"},
		{"passed on the same date line day", "2026-12-01T09:00", "", "", "2026-12-01T20:00:00Z", "Pacific/Kiritimati", "2026-12-02T19:00:00Z"},
		{"in summer", "2026-07-01T09:00", "", "", "2026-06-30T19:00:00Z", "Europe/Oslo", "2026-07-01T07:00:00Z"},
		{"clocks skip it: when they go forward", "2026-03-29T02:30", "", "", "2026-03-28T12:30:00Z", "Europe/Oslo", "2026-03-29T01:00:00Z"},
		{"clocks show it twice: the first time", "2026-10-25T02:30", "", "", "2026-10-24T12:30:00Z", "Europe/Oslo", "2026-10-25T00:30:00Z"},
		{"passed before the change: the next day's time", "2026-10-24T09:00", "", "", "2026-10-24T12:00:00Z", "Europe/Oslo", "2026-10-25T08:00:00Z"},
		{"a date that a zone skipped", "2011-12-30T09:00", "", "", "2011-12-29T19:00:00Z", "Pacific/Apia", "2011-12-30T10:00:00Z"},
	} {
		l, err := (&Spec{Local: &LocalTime{At: c.at, Fallback: c.fallback, Passed: c.passed}}).localTimes()
		if err != nil {
			t.Fatal(err)
		}
		start, _ := time.Parse(time.RFC3339, c.start)
		if got := l.due(start, c.zone).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: due at %s, want %s", c.name, got, c.want)
		}
		if due, last := l.due(start, c.zone), l.last(start); due.After(last) {
			t.Errorf("%s: due at %s, after the last one at %s", c.name, due.UTC(), last)
		}
	}
}

func TestTheEndOfALocalTimeIsThatOfTheLastZone(t *testing.T) {
	for _, c := range []struct{ name, passed, now, from, to string }{
		{"it has passed nowhere", "", "2026-11-30T12:00:00Z", "2026-11-30T19:00:00Z", "2026-12-01T21:00:00Z"},
		{"it has passed in the east, which gets it a day later", "", "2026-12-01T08:00:00Z", "2026-12-01T08:00:00Z", "2026-12-02T08:00:00Z"},
		{"it has passed in the east, which gets it at once", AtOnce, "2026-12-01T08:00:00Z", "2026-12-01T08:00:00Z", "2026-12-01T21:00:00Z"},
	} {
		now, _ := time.Parse(time.RFC3339, c.now)
		from, to, ok := (&Spec{Local: &LocalTime{At: "2026-12-01T09:00", Passed: c.passed}}).LocalSpan(now)
		if !ok || from.Format(time.RFC3339) != c.from || to.Format(time.RFC3339) != c.to {
			t.Errorf("%s: from %s to %s, want %s to %s", c.name, from, to, c.from, c.to)
		}
	}
}

func TestBadLocalTimesNameTheirField(t *testing.T) {
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		local  LocalTime
		sendAt time.Time
		field  string
	}{
		"with a zone":       {LocalTime{At: "2026-12-01T09:00:00Z"}, time.Time{}, "local_time.at"},
		"no time":           {LocalTime{At: "2026-12-01"}, time.Time{}, "local_time.at"},
		"no such day":       {LocalTime{At: "2026-02-30T09:00"}, time.Time{}, "local_time.at"},
		"passed everywhere": {LocalTime{At: "2026-11-30T19:59"}, time.Time{}, "local_time.at"},
		"too far":           {LocalTime{At: "2028-01-01T09:00"}, time.Time{}, "local_time.at"},
		"no such zone":      {LocalTime{At: "2026-12-01T09:00", Fallback: "Local"}, time.Time{}, "local_time.fallback"},
		"no such choice":    {LocalTime{At: "2026-12-01T09:00", Passed: "never"}, time.Time{}, "local_time.passed"},
		"two times":         {LocalTime{At: "2026-12-01T09:00"}, now.Add(time.Hour), "send_at"},
	} {
		spec := Spec{Local: &c.local}
		spec.Content.Title = "x"
		begin, err := spec.beginsAt(c.sendAt, now)
		if err == nil {
			err = spec.Check(now, begin)
		}
		var field *notification.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want field %s", name, err, c.field)
		}
	}
	spec := Spec{Local: &LocalTime{At: "2026-11-30T20:00"}} // it is that time now in the westernmost zone
	spec.Content.Title = "x"
	begin, err := spec.beginsAt(time.Time{}, now)
	if err != nil || !begin.Equal(now) || spec.Check(now, begin) != nil {
		t.Errorf("begins at %s, %v", begin, err)
	}
}
