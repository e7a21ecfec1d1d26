package report

import (
	"cmp"
	"strconv"
)

// shareTitles are the columns of the table by machine.
func shareTitles() []string {
	return []string{"machine", "of", "run", "clients", "received", "mean", "deviation", "p50", "p99", "its CPU", "its memory", "clock within"}
}

// shareCells returns the row of one machine.
func shareCells(s *Share) []string {
	ms := func(v float64) string {
		if s.Received == 0 {
			return "" // only connections were measured
		}
		return Format(v) + " ms"
	}
	return []string{
		s.Machine, cmp.Or(s.Group, "all"), strconv.Itoa(s.Run), Format(float64(s.Clients)), Format(float64(s.Received)), ms(s.Mean), ms(s.Sigma), ms(s.P50), ms(s.P99),
		Format(s.CPU) + " cores", Format(s.Memory) + " MB", "± " + Format(s.Clock) + " ms",
	}
}
