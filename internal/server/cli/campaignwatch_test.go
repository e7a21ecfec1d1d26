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
		" 50 % 2 of 4, running, 0/s, decides in 1h0m0s":  {State: "running", Total: 4, Enumerated: true, Rate: "0/s", DecidesAt: now.Add(time.Hour), Counts: map[string]int64{"pending": 2}},
		"  0 % 0 of 4 or more, running, 0/s":             {State: "running", Total: 4, Rate: "0/s", Counts: map[string]int64{"pending": 4}},
		"100 % 4 of 4, completed":                        {State: "completed", Total: 4, Enumerated: true, ETA: now.Add(time.Second), Counts: map[string]int64{"accepted": 4}},
		" 75 % 3 of 4, recalling, 1 unknown":             {State: "recalling", Total: 4, Enumerated: true, NotRecalled: 1, Counts: map[string]int64{"recalled": 2, "unknown": 1}},
		" 50 % 2 of 4, correcting":                       {State: "correcting", Total: 9, Correction: correctionJSON{Messages: 4, Corrected: 1, NotCorrected: 1}},
		"  0 % 0 of 0 or more, running, 1/s":             {State: "running", Rate: "1/s", ETA: now},
	} {
		if got := strings.TrimLeft(progressLine(v, now), "█░"); got != want && got != " "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestACorrectionSaysWhatItHasNotChanged(t *testing.T) {
	k := correctionJSON{At: time.Now(), Messages: 4, Corrected: 3}
	if got := k.text("c1"); got != "3 of 4 messages in Telegram are corrected" {
		t.Errorf("got %q", got)
	}
	k.NotCorrected, k.Kept = 1, 2
	want := "3 of 4 messages in Telegram are corrected; 2 elsewhere stay as they are; 1 could not be: godwit campaign deliveries c1 says why"
	if got := k.text("c1"); got != want {
		t.Errorf("got %q", got)
	}
	if got := (&correctionJSON{}).text("c1"); got != "" {
		t.Errorf("without one: %q", got)
	}
}

func TestCountsNameWhatThereIs(t *testing.T) {
	if got := countsText(map[string]int64{"failed": 2, "unknown": 0}); got != "0 accepted, 2 failed" {
		t.Errorf("got %q", got)
	}
}
