package quiet

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
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
		{"an end that does not exist", "22:00", "02:30", "2026-03-28T22:00:00Z", "Europe/Oslo", "2026-03-29T01:00:00Z"},
		{"an end that does not exist, west of Greenwich", "22:00", "02:30", "2026-03-08T05:00:00Z", "America/New_York", "2026-03-08T07:00:00Z"},
		{"an end that does not exist, in the south", "22:00", "02:30", "2026-10-03T14:00:00Z", "Australia/Sydney", "2026-10-03T16:00:00Z"},
		{"an end that does not exist, at midnight", "22:00", "00:30", "2026-09-06T03:00:00Z", "America/Santiago", "2026-09-06T04:00:00Z"},
		{"an end by half an hour", "22:00", "02:15", "2026-10-03T14:00:00Z", "Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
		{"an end that comes twice", "22:00", "02:30", "2026-10-24T22:00:00Z", "Europe/Oslo", "2026-10-25T01:30:00Z"},
		{"between the two ends", "22:00", "02:30", "2026-10-25T00:45:00Z", "Europe/Oslo", "2026-10-25T01:30:00Z"},
		{"an end that comes twice, west of Greenwich", "22:00", "01:30", "2026-11-01T04:00:00Z", "America/New_York", "2026-11-01T06:30:00Z"},
		{"an end that comes twice, in the south", "22:00", "02:30", "2026-04-04T13:00:00Z", "Australia/Sydney", "2026-04-04T16:30:00Z"},
		{"an end that comes twice, before midnight", "20:00", "23:30", "2026-04-04T23:30:00Z", "America/Santiago", "2026-04-05T03:30:00Z"},
		{"a beginning that comes twice", "02:30", "08:00", "2026-10-25T01:15:00Z", "Europe/Oslo", "2026-10-25T07:00:00Z"},
		{"a beginning that does not exist", "02:30", "08:00", "2026-03-29T01:00:00Z", "Europe/Oslo", "2026-03-29T06:00:00Z"},
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

func TestTimeZoneNames(t *testing.T) {
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

//go:embed testdata/zones.txt
var zoneNames string

// TestQuietHoursEndWhereClocksSaySo compares the results with local times, minute by minute around each clock change of three years, in
// every time zone.
func TestQuietHoursEndWhereClocksSaySo(t *testing.T) {
	from, to := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := map[string]bool{} // many zones are aliases of another
	for name := range strings.FieldsSeq(zoneNames) {
		zone := Zone(name)
		if zone == nil {
			t.Fatalf("%s is not known", name)
		}
		for at := from; ; {
			_, ends := at.In(zone).ZoneBounds()
			if ends.IsZero() || ends.After(to) {
				break
			}
			at = ends
			_, before := ends.Add(-1).Zone()
			_, after := ends.Zone()
			if what := fmt.Sprint(ends.Unix(), before, after); before != after && !seen[what] {
				seen[what] = true
				compareAround(t, name, zone, ends)
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d changes were looked at", len(seen))
	}
}

// compareAround tests quiet hours that begin or end near a clock change.
func compareAround(t *testing.T, name string, zone *time.Location, change time.Time) {
	t.Helper()
	const around = 36 * 60
	clocks := make([]time.Time, 2*around) // local times, minute by minute
	first := change.Add(-around * time.Minute)
	for i := range clocks {
		clocks[i] = clockOf(first.Add(time.Duration(i) * time.Minute).In(zone))
	}
	shown := clockOf(change.In(zone))
	for _, shift := range []int{-75, -30, 0, 15, 45} {
		end := shown.Add(time.Duration(shift) * time.Minute)
		h := Hours{(end.Hour()*60 + end.Minute() + 18*60) % minutesOfDay, end.Hour()*60 + end.Minute()}
		want := endByClocks(clocks, end)
		for _, before := range []int{1, 20, 60, 100} {
			at := first.Add(time.Duration(want-before) * time.Minute)
			if got := h.Next(at, zone); !got.Equal(first.Add(time.Duration(want) * time.Minute)) {
				t.Fatalf("%s, %s: quiet until %02d:%02d end at %s, want %s", name, at.In(zone), h.to/60, h.to%60, got.In(zone), first.Add(time.Duration(want)*time.Minute).In(zone))
			}
		}
		if at := first.Add(time.Duration(want) * time.Minute); !h.Next(at, zone).Equal(at) {
			t.Fatalf("%s: quiet until %02d:%02d go on at %s", name, h.to/60, h.to%60, at.In(zone))
		}
	}
}

const minutesOfDay = 24 * 60

// endByClocks returns the last minute at which clocks show a time, or the first at which they show a later one.
func endByClocks(clocks []time.Time, end time.Time) int {
	for i := len(clocks) - 1; i >= 0; i-- {
		if clocks[i].Equal(end) {
			return i
		}
	}
	return slices.IndexFunc(clocks, func(c time.Time) bool { return c.After(end) })
}

func TestATimeThatComesTwiceIsTheFirst(t *testing.T) {
	in := Zone("America/New_York")
	for wall, want := range map[string]string{"2024-11-03 01:30": "2024-11-03T05:30:00Z", "2024-03-10 02:30": "2024-03-10T07:00:00Z", "2024-06-01 09:00": "2024-06-01T13:00:00Z"} {
		w, err := time.Parse("2006-01-02 15:04", wall)
		if err != nil {
			t.Fatal(err)
		}
		if got := At(w, in).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s is %s, want %s", wall, got, want)
		}
	}
}
