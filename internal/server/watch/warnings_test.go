package watch_test

import (
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/watch"
)

func TestHealthyServerNeedsNoAttention(t *testing.T) {
	now := time.Now()
	s := watch.State{Free: "9GB", Least: "256MB", Behind: 100, Certificates: []watch.Certificate{{To: "clients", Ends: now.AddDate(0, 2, 0)}}}
	if got := s.Advise(now); len(got) != 0 {
		t.Errorf("advised %+v", got)
	}
}

func TestEachTroubleIsSaidWithWhatToDo(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		about, text string
		grave       bool
		state       watch.State
	}{
		{"store", "damaged", true, watch.State{Damaged: true}},
		{"store", "does not answer", true, watch.State{StoreAway: true}},
		{"disk", "Publishes are refused: the disk has 10MB left, and 256MB are kept free", true, watch.State{Full: true, Short: true, Free: "10MB", Least: "256MB"}},
		{"disk", "The disk has 400MB left", false, watch.State{Short: true, Free: "400MB", Least: "256MB"}},
		{"bus", "NATS does not answer", true, watch.State{BusAway: true}},
		{"node", "Node b has not been heard for 1m0s: it ended.", true, watch.State{Missing: []watch.Lost{{Name: "b", Why: "it ended", Silent: time.Minute, Ended: true}}}},
		{"sink", "The sink kafka is failing since 1 May 2026, 12:00 UTC.", true, watch.State{Sinks: []watch.Trouble{{Name: "kafka", State: "failing", Since: now}}}},
		{"node", "draining", false, watch.State{Draining: true}},
		{"channel", "The provider of fcm refuses the credentials", true, watch.State{Refused: []string{"fcm"}}},
		{"hook", "The hook orders is paused since 1 May 2026, 11:00 UTC: answered 410.", true, watch.State{Hooks: []watch.Trouble{{Name: "orders", State: "paused", Error: "answered 410", Since: now.Add(-time.Hour)}}}},
		{"sink", "The sink clickhouse is stopped: no such table.", true, watch.State{Sinks: []watch.Trouble{{Name: "clickhouse", State: "stopped", Error: "no such table"}}}},
		{"source", "The source redisstream is failing.", true, watch.State{Takes: []watch.Trouble{{Name: "redisstream", State: "failing"}}}},
		{"certificate", "shown to clients ends on 21 May 2026", false, watch.State{Certificates: []watch.Certificate{{To: "clients", Ends: now.AddDate(0, 0, 20)}}}},
		{"certificate", "shown to cluster has ended on 30 Apr 2026", true, watch.State{Certificates: []watch.Certificate{{To: "cluster", Ends: now.AddDate(0, 0, -1)}}}},
		{"certificate", "shown to clients has ended on 1 May 2026", true, watch.State{Certificates: []watch.Certificate{{To: "clients", Ends: now}}}},
		{"certificate", "shown to clients ends on 1 May 2026, 12:00 UTC", false, watch.State{Certificates: []watch.Certificate{{To: "clients", Ends: now.Add(time.Nanosecond)}}}},
		{"certificate", "shown to clients ends on 22 May 2026, 11:59 UTC", false, watch.State{Certificates: []watch.Certificate{{To: "clients", Ends: now.AddDate(0, 0, 21).Add(-time.Nanosecond)}}}},
		{"node", "Node b has never been heard: lost.", true, watch.State{Missing: []watch.Lost{{Name: "b", Why: "lost"}}}},
		{"store", "10001 operations wait", false, watch.State{Behind: 10_001}},
		{"events", "could not take 1 event in", false, watch.State{Dropped: 1}},
		{"connections", "1 connection was refused", false, watch.State{Turned: 1}},
		{"calls", "1 call to the API failed", false, watch.State{Failed: 1}},
		{"events", "could not take 3 events", false, watch.State{Dropped: 3}},
		{"connections", "4 connections were refused", false, watch.State{Turned: 4}},
		{"calls", "5 calls to the API failed", false, watch.State{Failed: 5}},
	} {
		got := c.state.Advise(now)
		if len(got) != 1 || got[0].About != c.about || got[0].Grave != c.grave || !strings.Contains(got[0].Text(), c.text) || got[0].Do() == "" {
			t.Errorf("%+v: advised %+v, want %s: %s", c.state, got, c.about, c.text)
		}
	}
}

// TestNoWarningIsFalse: each warning has a state next to the one that raises it which does not.
func TestNoWarningIsFalse(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for about, s := range map[string]watch.State{
		"a store that works":                    {Damaged: false, StoreAway: false},
		"a disk with room":                      {Free: "512MB", Least: "256MB"},
		"a bus within the process":              {BusAway: false},
		"nodes that are heard":                  {Missing: nil},
		"a node that serves":                    {Draining: false},
		"channels whose credentials are taken":  {Refused: nil},
		"hooks, sinks and sources that work":    {Hooks: nil, Sinks: nil, Takes: nil},
		"a certificate for 21 days":             {Certificates: []watch.Certificate{{To: "clients", Ends: now.AddDate(0, 0, 21)}}},
		"as many operations as a commit takes":  {Behind: 10_000},
		"an event log that took all":            {Dropped: 0},
		"nobody turned away":                    {Turned: 0},
		"calls that failed for others' reasons": {Failed: 0},
	} {
		if got := s.Advise(now); len(got) != 0 {
			t.Errorf("%s: advised %+v", about, got)
		}
	}
}

func TestAdviceNamesTheNodeThatIsTakenOffTheList(t *testing.T) {
	s := watch.State{Missing: []watch.Lost{{Name: "b", Why: "it ended", Silent: time.Minute, Ended: true}}}
	if do := s.Advise(time.Now())[0].Do(); !strings.HasSuffix(do, "godwit cluster forget b") {
		t.Errorf("it says to do: %s", do)
	}
}
