package campaign

import (
	"testing"
	"time"
)

func TestQuietHoursEndInTheRecipientsMorning(t *testing.T) {
	night, err := (&Spec{Quiet: &QuietHours{From: "22:00", To: "08:00", Timezone: "recipient", Fallback: "Europe/Oslo"}}).quietTimes()
	if err != nil {
		t.Fatal(err)
	}
	noon, err := (&Spec{Quiet: &QuietHours{From: "12:00", To: "13:30", Timezone: "Asia/Tokyo"}}).quietTimes()
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
		_, err := (&Spec{Quiet: &q}).quietTimes()
		wantField(t, err, field)
	}
}

func TestQuietHoursAndLocalTimesHaveOneZoneForThoseWithout(t *testing.T) {
	local := func(zone string) *LocalTime { return &LocalTime{At: "2026-12-24T09:00", Fallback: zone} }
	night := func(zone string) *QuietHours { return &QuietHours{From: "22:00", To: "08:00", Fallback: zone} }
	for _, c := range []struct {
		name string
		spec Spec
		want string
	}{
		{"given with the local time", Spec{Local: local("Europe/Oslo"), Quiet: night("")}, "Europe/Oslo"},
		{"given with the quiet hours", Spec{Local: local(""), Quiet: night("Asia/Tokyo")}, "Asia/Tokyo"},
		{"given in both", Spec{Local: local("Asia/Tokyo"), Quiet: night("Asia/Tokyo")}, "Asia/Tokyo"},
		{"given in neither", Spec{Local: local(""), Quiet: night("")}, "UTC"},
		{"without a local time", Spec{Quiet: night("Europe/Oslo")}, "Europe/Oslo"},
	} {
		w, err := c.spec.quietTimes()
		if err != nil || w.fallback.String() != c.want || c.spec.Fallback() != c.want {
			t.Errorf("%s: quiet hours are in %v, %v", c.name, w, err)
		}
		if c.spec.Local != nil {
			if l, err := c.spec.localTimes(); err != nil || l.fallback.String() != c.want {
				t.Errorf("%s: the local time is in %v, %v", c.name, l, err)
			}
		}
		if err := c.spec.checkFallback(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	two := Spec{Local: local("Europe/Oslo"), Quiet: night("Asia/Tokyo")}
	wantField(t, two.checkFallback(), "quiet_hours.fallback")
}

func TestTheExpectedEndKeepsQuietHours(t *testing.T) {
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	oslo := &QuietHours{From: "22:00", To: "08:00", Timezone: "Europe/Oslo"}
	each := &QuietHours{From: "22:00", To: "08:00"}
	for _, c := range []struct {
		name        string
		spec        Spec
		begin       string
		needs       time.Duration
		end, latest string
	}{
		{"without quiet hours", Spec{Spread: Duration(3 * time.Hour)}, "2026-12-01T10:00:00Z", time.Hour, "2026-12-01T13:00:00Z", ""},
		{"by day", Spec{Quiet: oslo}, "2026-12-01T10:00:00Z", time.Hour, "2026-12-01T11:00:00Z", ""},
		{"into the night", Spec{Quiet: oslo}, "2026-12-01T20:30:00Z", time.Hour, "2026-12-02T07:30:00Z", ""},
		{"spread into the night", Spec{Quiet: oslo, Spread: Duration(2 * time.Hour)}, "2026-12-01T20:30:00Z", time.Minute, "2026-12-02T07:00:00Z", ""},
		{"it is over before", Spec{Quiet: oslo, Expires: at("2026-12-01T22:00:00Z")}, "2026-12-01T20:30:00Z", time.Hour, "2026-12-01T22:00:00Z", ""},
		{"in each recipient's zone", Spec{Quiet: each}, "2026-12-01T10:00:00Z", 0, "2026-12-01T10:00:00Z", "2026-12-01T20:00:00Z"}, // where it is 22:00 then
	} {
		end, latest := c.spec.End(at(c.begin), c.needs)
		got := ""
		if !latest.IsZero() {
			got = latest.UTC().Format(time.RFC3339)
		}
		if end.UTC().Format(time.RFC3339) != c.end || got != c.latest {
			t.Errorf("%s: ends at %s, or %s; want %s, %s", c.name, end.UTC(), latest.UTC(), c.end, c.latest)
		}
	}
}
