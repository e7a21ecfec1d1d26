package campaign

import (
	"testing"
	"time"
)

func TestQuietHoursEndInTheRecipientsMorning(t *testing.T) {
	night, err := (&QuietHours{From: "22:00", To: "08:00", Timezone: "recipient", Fallback: "Europe/Oslo"}).parse()
	if err != nil {
		t.Fatal(err)
	}
	noon, err := (&QuietHours{From: "12:00", To: "13:30", Timezone: "Asia/Tokyo"}).parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		w        *quietTimes
		at, zone string
		want     string
	}{
		{"before midnight", night, "2026-01-10T21:30:00Z", "Europe/Oslo", "2026-01-11T07:00:00Z"},
		{"after midnight", night, "2026-01-10T02:00:00Z", "Europe/Oslo", "2026-01-10T07:00:00Z"},
		{"by day", night, "2026-01-10T12:00:00Z", "Europe/Oslo", "2026-01-10T12:00:00Z"},
		{"the first quiet minute", night, "2026-01-10T21:00:00Z", "Europe/Oslo", "2026-01-11T07:00:00Z"},
		{"the first minute after", night, "2026-01-10T07:00:00Z", "Europe/Oslo", "2026-01-10T07:00:00Z"},
		{"another zone at the same moment", night, "2026-01-10T21:30:00Z", "America/New_York", "2026-01-10T21:30:00Z"},
		{"no zone: the fallback", night, "2026-01-10T21:30:00Z", "", "2026-01-11T07:00:00Z"},
		{"a zone that does not exist", night, "2026-01-10T21:30:00Z", "Mars/Olympus", "2026-01-11T07:00:00Z"},
		{"end of the month", night, "2026-01-31T22:30:00Z", "Europe/Oslo", "2026-02-01T07:00:00Z"},
		{"the night the clocks go forward", night, "2026-03-28T22:00:00Z", "Europe/Oslo", "2026-03-29T06:00:00Z"},
		{"within one day, a fixed zone", noon, "2026-01-10T03:15:00Z", "Europe/Oslo", "2026-01-10T04:30:00Z"},
		{"outside it", noon, "2026-01-10T04:30:00Z", "Europe/Oslo", "2026-01-10T04:30:00Z"},
		{"none at all", nil, "2026-01-10T04:30:00Z", "Europe/Oslo", "2026-01-10T04:30:00Z"},
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		if got := c.w.next(at, c.zone).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: due at %s, want %s", c.name, got, c.want)
		}
	}
}

func TestBadQuietHoursNameTheirField(t *testing.T) {
	for field, q := range map[string]QuietHours{
		"quiet_hours.from":     {From: "25:00", To: "08:00"},
		"quiet_hours.to":       {From: "22:00", To: "22:00"},
		"quiet_hours.timezone": {From: "22:00", To: "08:00", Timezone: "Local"},
		"quiet_hours.fallback": {From: "22:00", To: "08:00", Fallback: "../etc/passwd"},
	} {
		_, err := q.parse()
		wantField(t, err, field)
	}
}
