package scenario

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// Matrix measures how long it takes to deliver a number of notifications, one after the other, to each of some clients: the next is
// published when the one before was answered, has arrived and was acknowledged.
type Matrix struct {
	Common
	Counts  []int
	Sizes   []int
	Clients []int
	Samples int           // of each cell, at most
	Within  time.Duration // time limit for all cells: those that would take longer get fewer samples, but at least one
	QUIC    bool          // sessions over QUIC too
	Rivals  bool          // also measure Mosquitto, if it is installed

	until time.Time
	left  int // total weight of the cells that are not measured yet
}

// contestant is one of the servers that are compared.
type contestant struct {
	name, transport, via string
	rival                *testbed.Rival
}

// failed handles a contestant's failure. If a rival fails, it adds a note, and all measurements so far count. If Godwit fails, or ctx has
// ended, it returns the error.
func (c *contestant) failed(ctx context.Context, r *report.Result, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case c.rival == nil || ctx.Err() != nil:
		return fmt.Errorf("%s, %s: %w", what, c.name, err)
	}
	why := strings.Join(strings.Fields(err.Error()), " ") // a program's log has lines
	r.Note(fmt.Sprintf("%s failed and is left out there (%s): %.*s", c.name, what, mostWhy, why))
	return nil
}

// measure applies a load to the contestant on servers of its own.
func (c *contestant) measure(ctx context.Context, l Load, run int) (*Outcome, error) {
	env := *l.Testbed
	env.Rival, env.Profile = c.rival, ""
	outer := l.Testbed.Progress
	env.Progress = func(line string) {
		if outer != nil {
			outer(c.name + ": " + line)
		}
	}
	l.Testbed, l.Transport, l.Via = &env, c.transport, c.via
	return l.measure(ctx, run)
}

// mostWhy limits the text of a failure's reason, in bytes.
const mostWhy = 500

// patience bounds one sample.
const patience = 2 * time.Minute

// Run measures every cell for every contestant. Samples of a cell alternate between contestants, so that other work of the machine affects
// all alike. After a failure, Run still returns the earlier measurements.
func (m *Matrix) Run(ctx context.Context) (*report.Result, error) {
	r := m.begin("matrix", "matrix: milliseconds until each of some clients has got some notifications, one after the other",
		set("samples, at most", m.Samples), set("within", m.Within), set("clients", m.Clients), set("sizes", m.Sizes), set("notifications", m.Counts))
	r.Compared = true
	all := []contestant{
		{name: "Godwit, WebSocket and HTTP, durable before the answer", transport: loadgen.WebSocketJSON, via: loadgen.ViaHTTP},
		{name: "Godwit, gRPC, durable before the answer", transport: loadgen.GRPC, via: loadgen.ViaGRPC},
	}
	if m.QUIC {
		all = append(all, contestant{name: "Godwit, QUIC and HTTP, durable before the answer", transport: loadgen.QUIC, via: loadgen.ViaHTTP})
	}
	if m.Rivals {
		all = m.addMosquitto(r, all)
	}
	m.until, m.left = time.Now().Add(m.Within), m.work()
	for _, clients := range m.Clients {
		if err := m.clients(ctx, r, all, clients); err != nil {
			return r, err
		}
		for _, size := range m.Sizes {
			m.draw(r, all, clients, size)
		}
	}
	return r, nil
}

// weight estimates the time of a cell's sample, in units of one notification among many. The 4 accounts for a single client's wait for an
// answer, which takes as long as five clients; the 300 gives quick cells enough time for all samples.
func weight(clients, count int) int { return count*(clients+4) + 300 }

// work returns the total weight of all cells.
func (m *Matrix) work() (sum int) {
	for _, clients := range m.Clients {
		for _, count := range m.Counts {
			sum += len(m.Sizes) * weight(clients, count)
		}
	}
	return sum
}

// share returns the time at which the next cell, of this weight, has used its part of the remaining time.
func (m *Matrix) share(weight int, now time.Time) time.Time {
	part := float64(weight) / float64(max(m.left, 1))
	m.left -= weight
	return now.Add(time.Duration(part * float64(m.until.Sub(now))))
}

// draw adds plots of the contestants' times over the number of notifications.
func (m *Matrix) draw(r *report.Result, all []contestant, clients, size int) {
	chart := fmt.Sprintf("%s B to %s", report.Format(float64(size)), counted(clients, "client"))
	for _, who := range all {
		line := report.Series{Name: who.name, Unit: "ms", Over: "notifications to each, one after the other", Chart: chart, Log: true}
		for _, count := range m.Counts {
			if f := r.Figure(cellName(clients, size, count), who.name); f != nil {
				line.Points = append(line.Points, [2]float64{float64(count), f.Median})
			}
		}
		if len(line.Points) > 0 {
			r.Series = append(r.Series, line)
		}
	}
}

func cellName(clients, size, count int) string {
	return fmt.Sprintf("%d × %s B to %s", count, report.Format(float64(size)), counted(clients, "client"))
}

// bout is one contestant with its server and clients.
type bout struct {
	contestant
	site   *testbed.Site
	prefix string
	out    bool // the contestant failed: its measurements so far count
}

func (m *Matrix) clients(ctx context.Context, r *report.Result, all []contestant, clients int) error {
	var bouts []*bout
	defer func() {
		for _, b := range bouts {
			if b.site != nil {
				b.site.Close()
			}
		}
	}()
	what := counted(clients, "client")
	for _, c := range all {
		b, err := m.open(ctx, c, clients)
		b.out = err != nil
		bouts = append(bouts, b)
		if err := c.failed(ctx, r, what, err); err != nil {
			return err
		}
	}
	for _, size := range m.Sizes {
		for _, b := range bouts {
			if b.out {
				continue
			}
			err := b.publishers(ctx, clients, size)
			b.out = err != nil
			if err := b.failed(ctx, r, what, err); err != nil {
				return err
			}
		}
		for _, count := range m.Counts {
			if err := m.cell(ctx, r, bouts, clients, size, count); err != nil {
				return err
			}
		}
	}
	return nil
}

// open starts a contestant's server and connects its clients.
func (m *Matrix) open(ctx context.Context, c contestant, clients int) (*bout, error) {
	l := *m.Testbed
	l.Rival = c.rival
	b := &bout{contestant: c, prefix: prefix()}
	var err error
	if b.site, err = l.NewSite(ctx, 1); err != nil {
		return b, err
	}
	_, err = b.site.Connect(ctx, loadgen.SubscriberConfig{
		Transport: c.transport, Prefix: b.prefix, Count: clients, Concurrency: opening, Heartbeat: heartbeat,
	}, 1)
	return b, err
}

// publishers connects one publisher for each client, in the worker that holds the subscribers: one process plays both sides.
func (b *bout) publishers(ctx context.Context, clients, size int) error {
	w := b.site.Subs[0]
	_, err := w.Call(ctx, worker.Request{Publishers: &loadgen.PublishConfig{
		Targets: b.site.Targets(), Via: b.via, Publishers: clients, Size: size, Prefix: b.prefix, Recipients: clients,
	}})
	if err != nil {
		return err
	}
	_, err = w.Call(ctx, worker.Request{PingPong: &worker.PingPong{Messages: 5, Patience: patience}}) // warm-up
	return err
}

func (m *Matrix) cell(ctx context.Context, r *report.Result, bouts []*bout, clients, size, count int) error {
	group := cellName(clients, size, count)
	until, round := m.share(weight(clients, count), time.Now()), time.Duration(0)
	for sample := range m.Samples {
		begun := time.Now()
		if sample > 0 && begun.Add(round).After(until) {
			break
		}
		for i := range bouts {
			b := bouts[(i+sample)%len(bouts)] // who goes first changes
			if b.out {
				continue
			}
			m.Testbed.Say("%s, sample %d: %s", group, sample+1, b.name)
			reply, err := b.site.Subs[0].Call(ctx, worker.Request{PingPong: &worker.PingPong{Messages: count, Patience: patience}})
			if b.out = err != nil; b.out {
				if err := b.failed(ctx, r, group, cmp.Or(b.site.Alive(), err)); err != nil {
					return err
				}
				continue
			}
			r.Add(group, b.name, "ms", reply.Seconds*1000)
		}
		round = time.Since(begun)
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
