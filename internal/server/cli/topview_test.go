package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

func TestLoadIsTheDifferenceOfTwoReadings(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := godwit.Stats{
		At: at, UptimeS: 100, Stored: 1000, Delivered: 500, Acks: 400, Store: godwit.StoreStats{Commits: 10},
		Publish: []godwit.LatencyBucket{{LeUS: 100, Count: 90}, {LeUS: 900_000, Count: 10}},
	}
	now := godwit.Stats{
		At: at.Add(2 * time.Second), UptimeS: 102, Stored: 3000, Delivered: 2500, Acks: 2401, Store: godwit.StoreStats{Commits: 30},
		Objects: godwit.ObjectStats{Registrations: 7, Changes: 20, Frames: 4000, Acks: 3},
		Steps:   godwit.StepStats{Accepted: 12, Failed: 4},
		Topics:  godwit.TopicStats{Subscriptions: 9, Publishes: 40, Messages: 800, Dropped: 6},
		Publish: []godwit.LatencyBucket{{LeUS: 100, Count: 90}, {LeUS: 500, Count: 98}, {LeUS: 2000, Count: 2}, {LeUS: 900_000, Count: 10}},
	}
	l := loadBetween(&old, &now)
	if l.Seconds != 2 || l.Publishes != 1000 || l.Deliveries != 1000 || l.Acks != 1000.5 || l.Commits != 10 {
		t.Errorf("rates %+v", l)
	}
	if l.Followed != 7 || l.Changes != 10 || l.Signals != 2000 {
		t.Errorf("objects %+v", l)
	}
	if l.Subscribed != 9 || l.TopicPublish != 20 || l.Messages != 400 || l.Dropped != 3 {
		t.Errorf("topics %+v", l)
	}
	if l.Steps != 6 || l.StepsFailed != 2 {
		t.Errorf("steps %+v", l)
	}
	if l.P50 != 0.5 || l.P99 != 2 {
		t.Errorf("p50 %v ms and p99 %v ms, want 0.5 and 2: of the interval alone", l.P50, l.P99)
	}
	again := godwit.Stats{At: at.Add(4 * time.Second), UptimeS: 1, Stored: 50}
	if l := loadBetween(&now, &again); l.Seconds != 1 || l.Publishes != 50 {
		t.Errorf("after a restart %+v, want what happened since", l)
	}
	if l := loadBetween(&godwit.Stats{}, &old); l.Seconds != 100 || l.Publishes != 10 {
		t.Errorf("at first %+v, want the average since the start", l)
	}
}

func TestViewFitsItsHeightAndIsClean(t *testing.T) {
	l := load{At: time.Now(), Version: "1\x1b[2J", Full: true}
	for range 50 {
		l.Slowest = append(l.Slowest, godwit.SlowSession{Recipient: "anna", Unacked: 1, OldestAt: l.At.Add(-3 * time.Minute)})
	}
	lines := l.lines("oldest", 20)
	if len(lines) != 20 {
		t.Errorf("%d lines for a screen of 20", len(lines))
	}
	text := strings.Join(lines, "\n")
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "FULL") || !strings.Contains(text, "3m ") {
		t.Errorf("%q", text)
	}
}

func TestGrouped(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.5: "0.5", 999: "999", 1000: "1,000", 1234567.8: "1,234,568"} {
		if got := grouped(f); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
}

func TestATokenComesFromItsFileElseFromTheEnvironment(t *testing.T) {
	p := &program{environ: []string{"GODWIT_TOKEN=of-the-environment"}}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"": "of-the-environment", file: "of-the-file"} {
		if got, err := p.token(from); got != want || err != nil {
			t.Errorf("%q: %q, %v", from, got, err)
		}
	}
	if _, err := p.token(file + "x"); err == nil {
		t.Error("a file that is not there")
	}
}
