package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// Idle measures the memory and CPU time of idle sessions. The memory is the growth of the server's resident memory divided by the number of
// sessions, after the memory used for opening them has been returned.
type Idle struct {
	Common
	Transports []string
	Sessions   []int         // numbers of sessions, measured one after the other, each on a new server
	Limit      int           // bytes a session; below this, waiting for memory to settle ends early. 0: wait all of Settle
	Settle     time.Duration // how long the server may take to return memory
	Before     time.Duration // how long it may settle before the sessions are opened; 0: five seconds
	Watch      time.Duration // how long to watch the CPU time of idle sessions
}

// warmSessions are opened and closed before the first reading, so that memory allocated once for all sessions is not counted.
const warmSessions = 500

// settleBefore is how long memory may settle before the first reading.
const settleBefore = 5 * time.Second

// ErrLimit reports that a session takes more memory than the limit.
var ErrLimit = errors.New("a session costs more than the limit")

// Run measures each transport with each number of sessions, always on a new server.
func (s *Idle) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("idle", "idle: what a session costs that does nothing", set("sessions", s.numbers()), set("tls", s.Testbed.Server.TLS), set("settling for at most", s.Settle))
	if s.Testbed.Running != nil && s.Testbed.Running.PID == 0 {
		return nil, errors.New("to measure a server that runs already its process id is needed")
	}
	var over error
	for _, sessions := range s.Sessions {
		for _, transport := range s.Transports {
			err := s.runs(ctx, func(ctx context.Context, n int) error { return s.one(ctx, r, transport, sessions, n) })
			if err != nil {
				return r, fmt.Errorf("%s, %s: %w", transport, counted(sessions, "session"), err)
			}
			if f := r.Figure(s.group(transport, sessions), aSession); s.Limit > 0 && f.Median > float64(s.Limit) {
				over = errors.Join(over, fmt.Errorf("%s: %w of %d bytes", transport, ErrLimit, s.Limit))
			}
		}
	}
	if len(s.Sessions) > 1 {
		s.compare(r)
	}
	return r, over
}

// aSession is the name of the main figure.
const aSession = "memory a session"

func (s *Idle) numbers() string {
	var all []string
	for _, n := range s.Sessions {
		all = append(all, report.Format(float64(n)))
	}
	return strings.Join(all, ", ")
}

// group names one measurement. It contains the number of sessions only if there are several.
func (s *Idle) group(transport string, sessions int) string {
	if len(s.Sessions) == 1 {
		return transport
	}
	return fmt.Sprintf("%s, %s sessions", transport, report.Format(float64(sessions)))
}

// compare adds the transports' figures side by side, by the number of sessions.
func (s *Idle) compare(r *report.Result) {
	for _, sessions := range s.Sessions {
		group := fmt.Sprintf("memory of one of %s sessions", report.Format(float64(sessions)))
		for _, transport := range s.Transports {
			for _, v := range r.Figure(s.group(transport, sessions), aSession).Values {
				r.Add(group, transport, "B", v)
			}
		}
		r.Draw(group)
	}
}

func (s *Idle) one(ctx context.Context, r *report.Result, transport string, sessions, run int) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	if len(s.Sessions) > 1 {
		return s.atRest(ctx, r, site, transport, sessions)
	}
	f, err := s.footprint(ctx, site, transport, sessions)
	if err != nil {
		return err
	}
	cpu, err := s.idleCPU(ctx, site.Servers[0].PID)
	if err != nil {
		return err
	}
	group := s.group(transport, sessions)
	r.Add(group, aSession, "B", float64(f.after-f.before)/float64(sessions))
	r.Add(group, "server memory before", "MB", float64(f.before)/mb)
	r.Add(group, "server memory with the sessions", "MB", float64(f.after)/mb)
	r.Add(group, "server memory while opening, most", "MB", float64(meter.Peak(f.samples))/mb)
	r.Add(group, "opened in", "s", f.opened)
	r.Add(group, "settled in", "s", f.settled.Seconds())
	r.Add(group, "server CPU while idle", "ms/s", cpu*1000)
	if run == 0 {
		r.Series = append(r.Series, memorySeries(group+", server memory", f.samples))
	}
	return nil
}

// atRest measures instead of footprint when few sessions are compared with many: memory left over from opening them could exceed the cost
// of few sessions. So the server returns unused memory for the same time before the sessions are opened and afterwards.
func (s *Idle) atRest(ctx context.Context, r *report.Result, site *testbed.Site, transport string, sessions int) error {
	rest := ClusterIdle{Common: s.Common, Transport: transport, Sessions: sessions, Settle: s.Settle}
	s.Testbed.Say("%s, %s: settling for %s before and with them", transport, counted(sessions, "session"), s.Settle)
	grown, err := rest.open(ctx, site)
	if err != nil {
		return err
	}
	cpu, err := s.idleCPU(ctx, site.Servers[0].PID)
	if err != nil {
		return err
	}
	group := s.group(transport, sessions)
	r.Add(group, aSession, "B", grown[0])
	r.Add(group, "server CPU while idle", "ms/s", cpu*1000)
	return nil
}

// footprint is the growth of the server's memory caused by opening sessions.
type footprint struct {
	before, after int64
	opened        float64 // seconds
	settled       time.Duration
	samples       []meter.Sample
}

// footprint opens the sessions on a fresh site and waits for memory to settle.
func (s *Idle) footprint(ctx context.Context, site *testbed.Site, transport string, sessions int) (f footprint, err error) {
	cfg := loadgen.SubscriberConfig{Transport: transport, Count: warmSessions, Concurrency: opening, Heartbeat: heartbeat, Spread: true}
	cfg.Prefix = prefix()
	if _, err := site.Connect(ctx, cfg, 1); err != nil {
		return f, err
	}
	if _, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request { return worker.Request{Cut: true} }); err != nil {
		return f, err
	}
	site.StopWorkers()
	pid := site.Servers[0].PID
	if f.before, _, err = s.settled(ctx, pid, cmp.Or(s.Before, settleBefore), 0, transport); err != nil {
		return f, err
	}
	w := meter.Start([]int{pid}, 100*time.Millisecond)
	cfg.Count, cfg.Prefix = sessions, prefix()
	if f.opened, err = site.Connect(ctx, cfg, s.Workers); err == nil {
		f.after, f.settled, err = s.settled(ctx, pid, s.Settle, f.before+int64(s.Limit*sessions), transport)
	}
	f.samples = w.Stop()
	return f, err
}

func memorySeries(name string, samples []meter.Sample) report.Series {
	memory := report.Series{Name: name, Unit: "MB"}
	for _, p := range samples {
		memory.Points = append(memory.Points, [2]float64{p.Seconds, float64(p.Resident) / mb})
	}
	return memory
}

// cpuSeries returns the number of busy cores in each window.
func cpuSeries(name string, samples []meter.Sample, window time.Duration) report.Series {
	used := report.Series{Name: name, Unit: "cores"}
	last := 0
	for i, p := range samples {
		if span := p.Seconds - samples[last].Seconds; span >= window.Seconds() {
			used.Points = append(used.Points, [2]float64{p.Seconds, (p.CPU - samples[last].CPU) / span})
			last = i
		}
	}
	return used
}

// settled returns the least resident memory measured within patience; it returns earlier once that is at most goal.
func (s *Idle) settled(ctx context.Context, pid int, patience time.Duration, goal int64, transport string) (least int64, took time.Duration, err error) {
	begun := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		u, err := meter.Read(pid)
		if err != nil {
			return 0, 0, err
		}
		if least == 0 || u.Resident < least {
			least, took = u.Resident, time.Since(begun)
		}
		if u.Resident <= goal || time.Since(begun) >= patience {
			return least, took, nil
		}
		s.Testbed.Say("%s: settling, %s of at most %s, %s MB", transport, time.Since(begun).Round(time.Second), patience, report.Format(float64(u.Resident)/mb))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}

// idleCPU returns the CPU time per second that the server uses while nothing happens.
func (s *Idle) idleCPU(ctx context.Context, pid int) (float64, error) {
	s.Testbed.Say("watching idle sessions for %s", s.Watch)
	first, err := meter.Read(pid)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := wait(ctx, s.Watch); err != nil {
		return 0, err
	}
	last, err := meter.Read(pid)
	if err != nil {
		return 0, err
	}
	return (last.CPU - first.CPU).Seconds() / time.Since(begun).Seconds(), nil
}
