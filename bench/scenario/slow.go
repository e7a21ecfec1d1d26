package scenario

import (
	"context"
	"fmt"

	"godwit.dev/godwit/bench/report"
)

// Slow measures how clients that never read affect the others. It applies the same load without and with them, in turn, so that other work
// of the machine affects both alike.
type Slow struct {
	Load
	Pairs int
	Every int // each Every-th client does not read
}

// Run measures all pairs.
func (s *Slow) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("slow", "slow: what clients that never read cost the others",
		append(s.settings(), set("clients that do not read", fmt.Sprintf("1 in %d", s.Every)), set("pairs", s.Pairs))...)
	for pair := range max(s.Pairs, 1) {
		p99 := map[bool]float64{}
		for turn := range 2 {
			with := (turn+pair)%2 == 1 // who goes first alternates
			load := s.Load
			group := "all read"
			if with {
				load.DeafEvery = s.Every
				group = "some do not read"
			}
			o, err := load.measure(ctx, pair)
			if err != nil {
				return nil, fmt.Errorf("pair %d, %s: %w", pair+1, group, err)
			}
			o.tell(r, group, pair)
			p99[with] = o.Latency.Summary().P99
		}
		r.Add("", "p99 with them to p99 without", "×", p99[true]/p99[false])
	}
	return r, nil
}
