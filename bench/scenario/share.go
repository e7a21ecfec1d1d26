package scenario

import (
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// tellShares adds what each machine measured in one run.
func tellShares(r *report.Result, group string, run int, shares []testbed.Share) {
	for i := range shares {
		s := &shares[i]
		sum := s.Latency.Summary()
		r.Shares = append(r.Shares, report.Share{
			Machine: s.Machine, Group: group, Run: run + 1, Clients: s.Clients, Received: sum.Count,
			Mean: sum.Mean, Sigma: sum.Sigma, P50: sum.P50, P99: sum.P99,
			CPU: s.CPU, Memory: float64(s.Memory) / mb, Clock: float64(s.Clock.Nanoseconds()) / 1e6,
		})
	}
}
