package scenario

import (
	"context"

	"godwit.dev/godwit/bench/report"
)

// Unicast publishes each notification to one recipient.
func (l *Load) Unicast(ctx context.Context) (*report.Result, error) {
	return l.run(ctx, l.begin("unicast", "unicast: one recipient a publish", l.settings()...))
}

// Fanout publishes each message to all recipients, up to 1,000 recipients in one publish.
func (l *Load) Fanout(ctx context.Context) (*report.Result, error) {
	l.ToAll = true
	return l.run(ctx, l.begin("fanout", "fanout: each message to all recipients, up to 1,000 a publish", l.settings()...))
}

// Topics publishes each message to a topic that all clients subscribe to.
func (l *Load) Topics(ctx context.Context) (*report.Result, error) {
	l.ToAll, l.Topic = true, true
	return l.run(ctx, l.begin("topics", "topics: each message to all subscribers, at most once", l.settings()...))
}

func (l *Load) run(ctx context.Context, r *report.Result) (*report.Result, error) {
	return r, l.runs(ctx, func(ctx context.Context, n int) error {
		o, err := l.measure(ctx, n)
		if err != nil {
			return err
		}
		o.tell(r, "", n)
		return nil
	})
}
