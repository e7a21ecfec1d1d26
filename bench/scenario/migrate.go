package scenario

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/clients/go/quic"
)

// Migrate measures what a client over QUIC feels that changes its address again and again while notifications come.
type Migrate struct {
	Common
	Moves int
	Every time.Duration // between two moves
	Rate  float64       // notifications a second
}

// ErrMoved reports that a client that had moved lost something.
var ErrMoved = errors.New("a client that moved lost notifications or its session")

// movePatience limits how long the last notifications may take.
const movePatience = 10 * time.Second

// Run moves the client.
func (m *Migrate) Run(ctx context.Context) (*report.Result, error) {
	r := m.begin("migrate", "migrate: a client over QUIC changes its address while notifications come",
		set("moves", m.Moves), set("every", m.Every), set("notifications a second", m.Rate))
	return r, m.runs(ctx, func(ctx context.Context, n int) error {
		site, err := m.Testbed.NewSite(ctx, 1)
		if err != nil {
			return err
		}
		defer site.Close()
		m.Testbed.Say("run %d: %d moves", n+1, m.Moves)
		return m.one(ctx, r, site.Servers[0])
	})
}

// moved is what a client has felt.
type moved struct {
	mu       sync.Mutex
	last     time.Time     // arrival
	silence  time.Duration // the longest since the last move
	seen     map[string]struct{}
	sessions int
}

func (f *moved) arrived(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !f.last.IsZero() {
		f.silence = max(f.silence, now.Sub(f.last))
	}
	f.last = now
	f.seen[id] = struct{}{}
}

// take returns the longest silence since the last call.
func (f *moved) take() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest := max(f.silence, time.Since(f.last))
	f.silence = 0
	return longest
}

func (m *Migrate) one(ctx context.Context, r *report.Result, s *testbed.Server) error {
	c, publisher, err := clients(s)
	if err != nil {
		return err
	}
	defer c.Close()
	defer publisher.Close()
	ctx, cancel := context.WithCancel(ctx)
	felt := &moved{seen: make(map[string]struct{})}
	welcomed := make(chan struct{}, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		_ = c.Listen(ctx, "mover", func(_ context.Context, n *godwit.Notification) error { felt.arrived(n.ID); return nil }, godwit.OnConnect(func(godwit.Welcome) {
			felt.mu.Lock()
			felt.sessions++
			felt.mu.Unlock()
			select {
			case welcomed <- struct{}{}:
			default:
			}
		}))
	})
	select {
	case <-welcomed:
	case <-time.After(movePatience):
		return errors.New("the client was not welcomed over QUIC")
	}
	sent, stop := 0, make(chan struct{})
	var publishing sync.WaitGroup
	var failed error
	publishing.Go(func() { sent, failed = m.publish(ctx, publisher, stop) })
	silences, takes := latency.New(), latency.New()
	err = m.move(ctx, c, felt, silences, takes)
	close(stop)
	publishing.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	deadline := time.Now().Add(movePatience)
	lost := felt.lacks(sent)
	for lost > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		lost = felt.lacks(sent)
	}
	r.Add("", "notifications published", "", float64(sent))
	r.Add("", "notifications lost", "", float64(lost))
	r.Add("", "sessions", "", float64(felt.sessions))
	for name, h := range map[string]*latency.Histogram{"longest silence around a move": silences, "a move took": takes} {
		sum := h.Summary()
		r.Add("", name+", p50", "ms", sum.P50)
		r.Add("", name+", most", "ms", sum.Max)
	}
	if lost > 0 || felt.sessions != 1 {
		return fmt.Errorf("%w: %d lost, %d sessions", ErrMoved, lost, felt.sessions)
	}
	return nil
}

func (f *moved) lacks(sent int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sent - len(f.seen)
}

// move moves the client.
func (m *Migrate) move(ctx context.Context, c *godwit.Client, felt *moved, silences, takes *latency.Histogram) error {
	tick := time.NewTicker(m.Every)
	defer tick.Stop()
	for i := range m.Moves {
		felt.take()
		begun := time.Now()
		if err := c.NetworkChanged(ctx); err != nil {
			return fmt.Errorf("move %d: %w", i+1, err)
		}
		takes.Record(time.Since(begun))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		silences.Record(felt.take())
	}
	return nil
}

// publish publishes at the rate until stop is closed.
func (m *Migrate) publish(ctx context.Context, c *godwit.Client, stop chan struct{}) (sent int, err error) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / m.Rate))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return sent, nil
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		case <-tick.C:
		}
		if _, err := c.Publish(ctx, godwit.Publication{To: "mover", Title: "Ride"}); err != nil {
			return sent, err
		}
		sent++
	}
}

// clients makes a client that listens over QUIC, and one that publishes.
func clients(s *testbed.Server) (mover, publisher *godwit.Client, err error) {
	pem, err := os.ReadFile(s.CertFile())
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	if mover, err = godwit.New("quic://"+s.QUIC, quic.Enable(), godwit.WithRootCAs(roots), godwit.WithApp(testbed.App)); err != nil {
		return nil, nil, err
	}
	publisher, err = godwit.New("https://"+s.HTTP, godwit.WithRootCAs(roots), godwit.WithAPIKey(s.Key))
	return mover, publisher, err
}
