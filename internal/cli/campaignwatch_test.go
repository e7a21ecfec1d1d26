package cli

import (
	"strings"
	"testing"
	"time"
)

func TestProgressSaysHowFarAndHowLong(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, v := range map[string]*campaignJSON{
		"scheduled: begins in 1m0s":                      {State: "scheduled", SendAt: now.Add(time.Minute)},
		" 25 % 1 of 4, running, 2/s, 30s left, 1 failed": {State: "running", Total: 4, Enumerated: true, Rate: "2/s", ETA: now.Add(30 * time.Second), Counts: map[string]int64{"pending": 3, "failed": 1}},
		"  0 % 0 of 4 or more, running, 0/s":             {State: "running", Total: 4, Rate: "0/s", Counts: map[string]int64{"pending": 4}},
		"100 % 4 of 4, completed":                        {State: "completed", Total: 4, Enumerated: true, ETA: now.Add(time.Second), Counts: map[string]int64{"accepted": 4}},
		" 75 % 3 of 4, recalling, 1 unknown":             {State: "recalling", Total: 4, Enumerated: true, NotRecalled: 1, Counts: map[string]int64{"recalled": 2, "unknown": 1}},
		"  0 % 0 of 0 or more, running, 1/s":             {State: "running", Rate: "1/s", ETA: now},
	} {
		if got := strings.TrimLeft(progressLine(v, now), "█░"); got != want && got != " "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCountsNameWhatThereIs(t *testing.T) {
	if got := countsText(map[string]int64{"failed": 2, "unknown": 0}); got != "0 accepted, 2 failed" {
		t.Errorf("got %q", got)
	}
}
