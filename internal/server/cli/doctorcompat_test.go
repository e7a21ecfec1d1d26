package cli

import (
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/redisstream"
)

func TestDoctorSaysWhatIsOddAboutRedisStreams(t *testing.T) {
	for name, c := range map[string]struct {
		f    finding
		ok   bool
		says []string
	}{
		"alone":        {foundRedis(&redisstream.Inspection{Version: "7.0.15", Masters: []string{"a:1"}}), true, []string{"7.0.15 at a:1"}},
		"cluster":      {foundRedis(&redisstream.Inspection{Version: "7", Masters: []string{"a:1", "b:2"}, Cluster: true}), true, []string{"masters a:1 b:2"}},
		"tracking":     {foundFinding(&redisstream.Inspection{Finding: redisstream.ByTracking}), true, []string{"tracking:"}},
		"keyspace":     {foundFinding(&redisstream.Inspection{Finding: redisstream.ByKeyspace}), true, []string{"keyspace:", "Redis 6"}},
		"poll":         {foundFinding(&redisstream.Inspection{Finding: redisstream.ByPoll}), true, []string{"poll:", "notify-keyspace-events"}},
		"fitting":      {foundShards(&redisstream.Inspection{Streams: 3}, 128), true, []string{"mod 128", "3 streams"}},
		"not fitting":  {foundShards(&redisstream.Inspection{Streams: 3, Misplaced: 2, Example: "Nx{9}", Fits: []int{64, 128}}, 32), false, []string{"2 of 3 streams", "Nx{9}", "fit 64 or 128"}},
		"nothing fits": {foundShards(&redisstream.Inspection{Streams: 3, Misplaced: 2, Partial: true}, 32), false, []string{"2 of the first 3 streams", "what the publishers use"}},
		"no power":     {foundShards(&redisstream.Inspection{Streams: 1}, 5), true, []string{"not a power of two", "1 stream"}},
		"orphans":      {foundOrphans(&redisstream.Inspection{Entries: 7, Orphans: 2}), true, []string{"2 of 7 entries expired", "deletes them"}},
		"no orphans":   {foundOrphans(&redisstream.Inspection{Entries: 7}), true, []string{"none among 7 entries"}},
		"poison":       {foundPoison(&redisstream.Inspection{Poison: 1, Wrong: errors.New("ttl is missing"), Quarantined: map[int]int{9: 1, 4: 2}}), true, []string{"3 in quarantine, 1 not yet: ttl is missing", "quarantine{4}"}},
	} {
		text := c.f.Detail + " " + c.f.Hint
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", name, text, want)
			}
		}
		if c.f.OK != c.ok {
			t.Errorf("%s: ok %t", name, c.f.OK)
		}
	}
}
