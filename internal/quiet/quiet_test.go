package quiet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notification"
)

func TestHoursEndInTheMorning(t *testing.T) {
	for _, c := range []struct {
		name, from, to, at, zone, want string
	}{
		{"before midnight", "22:00", "08:00", "2026-01-10T21:30:00Z", "Europe/Oslo", "2026-01-11T07:00:00Z"},
		{"after midnight", "22:00", "08:00", "2026-01-10T02:00:00Z", "Europe/Oslo", "2026-01-10T07:00:00Z"},
		{"by day", "22:00", "08:00", "2026-01-10T12:00:00Z", "Europe/Oslo", "2026-01-10T12:00:00Z"},
		{"the first quiet minute", "22:00", "08:00", "2026-01-10T21:00:00Z", "Europe/Oslo", "2026-01-11T07:00:00Z"},
		{"the first minute after", "22:00", "08:00", "2026-01-10T07:00:00Z", "Europe/Oslo", "2026-01-10T07:00:00Z"},
		{"another zone at the same moment", "22:00", "08:00", "2026-01-10T21:30:00Z", "America/New_York", "2026-01-10T21:30:00Z"},
		{"end of the month", "22:00", "08:00", "2026-01-31T22:30:00Z", "Europe/Oslo", "2026-02-01T07:00:00Z"},
		{"the night the clocks go forward", "22:00", "08:00", "2026-03-28T22:00:00Z", "Europe/Oslo", "2026-03-29T06:00:00Z"},
		{"an end that does not exist", "22:00", "02:30", "2026-03-28T22:00:00Z", "Europe/Oslo", "2026-03-29T01:30:00Z"},
		{"the night the clocks go back", "22:00", "08:00", "2026-10-24T22:00:00Z", "Europe/Oslo", "2026-10-25T07:00:00Z"},
		{"within one day", "12:00", "13:30", "2026-01-10T03:15:00Z", "Asia/Tokyo", "2026-01-10T04:30:00Z"},
		{"outside it", "12:00", "13:30", "2026-01-10T04:30:00Z", "Asia/Tokyo", "2026-01-10T04:30:00Z"},
	} {
		h, err := Parse("quiet_hours", c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, c.at)
		if got := h.Next(at, Zone(c.zone)).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: due at %s, want %s", c.name, got, c.want)
		}
		if got := (Hours{}).Next(at, time.UTC); !got.Equal(at) {
			t.Errorf("without quiet hours due at %s, want %s", got, at)
		}
	}
}

func TestBadHoursNameTheirField(t *testing.T) {
	for _, c := range [][3]string{{"25:00", "08:00", "q.from"}, {"", "08:00", "q.from"}, {"22:00", "8", "q.to"}, {"22:00", "22:00", "q.to"}} {
		var bad *notification.FieldError
		if h, err := Parse("q", c[0], c[1]); !errors.As(err, &bad) || bad.Field != c[2] || h != (Hours{}) {
			t.Errorf("%q: %v, want an error of %s", c, err, c[2])
		}
	}
}

func TestWhatIsATimeZone(t *testing.T) {
	for name, want := range map[string]bool{
		"Europe/Oslo": true, "UTC": true, "Local": false, "": false, "Mars/Olympus": false, "../etc/passwd": false, strings.Repeat("a", 65): false,
	} {
		for range 2 { // looked up and remembered
			if got := Zone(name) != nil; got != want {
				t.Errorf("%q: %v, want %v", name, got, want)
			}
		}
		if _, err := CheckZone("timezone", name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzHours(f *testing.F) {
	f.Add("22:00", "08:00", int64(1_790_000_000), uint8(0))
	f.Add("12:00", "13:30", int64(1_774_738_800), uint8(1))
	names := []string{"Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "UTC", "Pacific/Apia"}
	f.Fuzz(func(t *testing.T, from, to string, unix int64, zone uint8) {
		h, err := Parse("q", from, to)
		if err != nil || unix < 0 || unix > 4_000_000_000 {
			return
		}
		at, in := time.Unix(unix, 0), Zone(names[int(zone)%len(names)])
		next := h.Next(at, in)
		if next.Before(at) || next.Sub(at) > 26*time.Hour {
			t.Fatalf("%s–%s at %s: due at %s", from, to, at.In(in), next.In(in))
		}
	})
}
