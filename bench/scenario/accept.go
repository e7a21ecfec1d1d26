package scenario

import (
	"context"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// Accept measures how fast sessions open.
type Accept struct {
	Common
	Transport   string
	Clients     int
	Concurrency int // number of connections that each worker opens at a time
}

// Run opens all connections once in each run.
func (a *Accept) Run(ctx context.Context) (*report.Result, error) {
	r := a.begin("accept", "accept: how fast sessions open, from connect to welcome",
		set("clients", a.Clients), set("transport", a.Transport), set("at a time", a.Concurrency*max(a.Workers, 1)), set("tls", a.Testbed.Server.TLS))
	return r, a.runs(ctx, func(ctx context.Context, n int) error {
		site, err := a.Testbed.NewSite(ctx, 1)
		if err != nil {
			return err
		}
		defer site.Close()
		a.Testbed.Say("run %d: opening %d sessions", n+1, a.Clients)
		profile := a.profile(ctx, site.Servers[0], 2*time.Second, n)
		w := meter.Start(site.PIDs(), 20*time.Millisecond)
		seconds, err := site.Connect(ctx, loadgen.SubscriberConfig{
			Transport: a.Transport, Prefix: prefix(), Count: a.Clients, Concurrency: a.Concurrency, Heartbeat: heartbeat, Spread: true,
		}, a.Workers)
		samples := w.Stop()
		if err != nil {
			return err
		}
		r.Add("", "sessions opened", "/s", float64(a.Clients)/seconds)
		if len(samples) > 1 {
			r.Add("", "server CPU a session", "µs", meter.CPU(samples)/float64(a.Clients)*1e6)
			r.Add("", "server memory, most", "MB", float64(meter.Peak(samples))/mb)
		}
		return profile.Wait()
	})
}

// Storm measures the reconnect of all clients that lose their connection at once, with pending notifications for each.
type Storm struct {
	Common
	Transport string
	Clients   int
	Pending   int // pending notifications for each client
	Size      int
	Settle    time.Duration // how long memory may settle before it is read as steady
}

// Run cuts all connections and lets the clients reconnect.
func (s *Storm) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("storm", "storm: all clients are cut and reconnect at once, with notifications waiting for each",
		set("clients", s.Clients), set("transport", s.Transport), set("pending each", s.Pending), set("size", s.Size), set("tls", s.Testbed.Server.TLS))
	return r, s.runs(ctx, func(ctx context.Context, n int) error { return s.one(ctx, r, n) })
}

func (s *Storm) one(ctx context.Context, r *report.Result, run int) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	p := prefix()
	s.Testbed.Say("run %d: connecting %d clients", run+1, s.Clients)
	_, err = site.Connect(ctx, loadgen.SubscriberConfig{
		Transport: s.Transport, Prefix: p, Count: s.Clients, Concurrency: opening, Heartbeat: heartbeat, Spread: true,
	}, s.Workers)
	if err != nil {
		return err
	}
	steady, err := s.steady(ctx, site)
	if err != nil {
		return err
	}
	s.Testbed.Say("run %d: cutting all", run+1)
	if _, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request { return worker.Request{Cut: true} }); err != nil {
		return err
	}
	want, err := s.publish(ctx, site, p)
	if err != nil {
		return err
	}
	s.Testbed.Say("run %d: reconnecting", run+1)
	before, err := site.Spent(ctx)
	if err != nil {
		return err
	}
	profile := s.profile(ctx, site.Servers[0], longProfile, run)
	w := meter.Start(site.PIDs(), 20*time.Millisecond)
	begun := time.Now()
	replies, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request {
		return worker.Request{Reconnect: &worker.Reconnect{}}
	})
	if err != nil {
		return err
	}
	c, err := site.AwaitReceived(ctx, want, time.Minute)
	served := time.Since(begun).Seconds()
	samples := w.Stop()
	if err != nil {
		return err
	}
	if before != nil {
		after, err := site.Spent(ctx)
		if err != nil {
			return err
		}
		r.Add("", "PostgreSQL CPU", "s", after.Since(*before).CPU.Seconds())
	}
	var welcomed float64
	for _, reply := range replies {
		welcomed = max(welcomed, reply.Seconds)
	}
	r.Add("", "all welcomed after", "s", welcomed)
	r.Add("", "all served after", "s", served)
	lost, more := arrived(want, c.Received)
	r.Add("", "deliveries missing", "", float64(lost))
	if more > 0 || r.Figure("", beyond) != nil {
		r.Add("", beyond, "", float64(more))
	}
	r.Add("", "deliveries twice", "", float64(c.Duplicates))
	s.tellMemory(r, run, steady, samples)
	return profile.Wait()
}

// steady waits until memory has settled with all clients connected, and returns the lowest reading.
func (s *Storm) steady(ctx context.Context, site *testbed.Site) (int64, error) {
	pids := site.PIDs()
	if len(pids) == 0 {
		return 0, nil
	}
	idle := Idle{Common: s.Common}
	least, _, err := idle.settled(ctx, pids[0], s.Settle, 0, s.Transport)
	return least, err
}

// publish leaves Pending notifications for each client and returns their total.
func (s *Storm) publish(ctx context.Context, site *testbed.Site, prefix string) (int64, error) {
	pub, err := site.NewWorker(ctx)
	if err != nil {
		return 0, err
	}
	defer pub.Stop()
	cfg := loadgen.PublishConfig{
		Targets: site.Targets(), Via: loadgen.ViaHTTP, Publishers: 4, Size: s.Size, Prefix: prefix, Recipients: s.Clients, ToAll: true,
	}
	if _, err := pub.Call(ctx, worker.Request{Publishers: &cfg}); err != nil {
		return 0, err
	}
	// One message every second: Pending seconds give Pending messages.
	reply, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: 1, For: time.Duration(s.Pending)*time.Second - time.Second/2}})
	if err != nil {
		return 0, err
	}
	return reply.Published.Accepted, nil
}

func (s *Storm) tellMemory(r *report.Result, run int, steady int64, samples []meter.Sample) {
	if steady == 0 {
		return
	}
	peak := meter.Peak(samples)
	r.Add("", "server memory, steady", "MB", float64(steady)/mb)
	r.Add("", "server memory, most", "MB", float64(peak)/mb)
	r.Add("", "most to steady", "×", float64(peak)/float64(steady))
	r.Add("", "server CPU", "s", meter.CPU(samples))
	if run > 0 {
		return
	}
	r.Series = append(r.Series, memorySeries("server memory", samples))
}
