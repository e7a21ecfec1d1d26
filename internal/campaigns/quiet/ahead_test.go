package quiet_test

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/quiet"
)

func TestWorkRestsInQuietHours(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	night, err := quiet.Parse("quiet_hours", "22:00", "08:00")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		t, err := time.ParseInLocation("2006-01-02 15:04", text, oslo)
		if err != nil {
			panic(err)
		}
		return t
	}
	for _, c := range []struct {
		from  string
		needs time.Duration
		want  string
	}{
		{"2026-12-01 09:00", time.Hour, "2026-12-01 10:00"},
		{"2026-12-01 21:30", 30 * time.Minute, "2026-12-01 22:00"},
		{"2026-12-01 21:30", 31 * time.Minute, "2026-12-02 08:01"},
		{"2026-12-01 23:00", 0, "2026-12-02 08:00"},
		{"2026-12-01 23:00", time.Hour, "2026-12-02 09:00"},
		{"2026-12-01 20:00", 20 * time.Hour, "2026-12-03 12:00"},
		{"2026-12-01 08:00", 14 * time.Hour, "2026-12-01 22:00"},
		{"2026-12-01 08:00", 100*14*time.Hour + time.Minute, "2027-03-11 08:01"},
		{"2026-03-28 21:00", 2 * time.Hour, "2026-03-29 09:00"},  // a short night
		{"2026-10-24 21:00", 14 * time.Hour, "2026-10-25 21:00"}, // a long one
	} {
		if got := night.Ahead(at(c.from), c.needs, oslo); !got.Equal(at(c.want)) {
			t.Errorf("%s and %s: %s, want %s", c.from, c.needs, got.In(oslo), c.want)
		}
	}
	if got := (quiet.Hours{}).Ahead(at("2026-12-01 23:00"), time.Hour, oslo); !got.Equal(at("2026-12-02 00:00")) {
		t.Errorf("without quiet hours: %s", got)
	}
}

func TestQuietHoursOfOneMinuteLessThanADayEndSoon(t *testing.T) {
	all, err := quiet.Parse("quiet_hours", "12:01", "12:00")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	if got, want := all.Ahead(from, 7*24*time.Hour, time.UTC), from.AddDate(0, 0, 7*24*60-1).Add(time.Minute); !got.Equal(want) {
		t.Errorf("%s, want %s", got, want)
	}
}
