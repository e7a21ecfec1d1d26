package scenario

import (
	"context"

	"godwit.dev/godwit/bench/report"
)

// SLA holds many connections on several independent servers, each with a data folder of its own, and publishes to all
// their recipients. A recipient's name decides its server.
func (l *Load) SLA(ctx context.Context) (*report.Result, error) {
	r := l.begin("sla", "sla: many connections on several independent servers", l.settings()...)
	return r, l.runs(ctx, func(ctx context.Context, n int) error {
		o, err := l.measure(ctx, n)
		if err != nil {
			return err
		}
		r.Add("", "connections held", "", float64(o.Counts.Live))
		r.Add("", "connected in", "s", o.ConnectSeconds)
		o.tell(r, "", n)
		return nil
	})
}
