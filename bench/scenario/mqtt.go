package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// MQTT measures Godwit over MQTT with the load that Mosquitto gets: publishes at QoS 1 to one recipient each, which Godwit answers once they are on
// disk, messages to all subscribers at QoS 0, connections that are opened, and connections that do nothing.
type MQTT struct {
	Common
	Clients     int // of unicast
	Publishers  int
	Size        int
	Rate        float64 // of unicast; 0: as fast as it is answered
	Fan         int     // subscribers of fan-out
	Connects    int
	Concurrency int // connections that each worker opens at a time
	Sessions    int // idle
	Warmup, For time.Duration
	Settle      time.Duration
	Rivals      bool
}

// Run measures each load on each server in turn, in as many runs as configured.
func (m *MQTT) Run(ctx context.Context) (*report.Result, error) {
	rate := "as fast as possible"
	if m.Rate > 0 {
		rate = report.Format(m.Rate) + "/s"
	}
	r := m.begin("mqtt", "mqtt: the same load over MQTT on Godwit and on Mosquitto",
		set("clients", m.Clients), set("publishers", m.Publishers), set("rate", rate), set("size", fmt.Sprintf("%d B", m.Size)), set("subscribers of fan-out", m.Fan), set("subscribers of bursts", max(m.Fan/fanBurst, 1)),
		set("connections opened", m.Connects), set("idle connections", m.Sessions), set("for", m.For), set("settling for", m.Settle))
	r.Compared = true
	all := []contestant{{name: "Godwit, QoS 1 durable before the answer", transport: loadgen.MQTT, via: loadgen.MQTT}}
	if m.Rivals {
		all = m.addMosquitto(r, all)
	}
	parts := []struct {
		name    string
		measure func(context.Context, *report.Result, *contestant, int) error
	}{
		{"unicast at QoS 1", m.unicast},
		{"fan-out at QoS 0", m.fanout(fanPaced, fanRate, 1, m.Fan)},
		{"fan-out in bursts", m.fanout(fanBursts, fanRate*fanBurst, fanBurst, max(m.Fan/fanBurst, 1))},
		{"fan-out without a pace", m.fanout(fanFast, 0, 1, m.Fan)},
		{"connects", m.connects},
		{"idle", m.idle},
	}
	return r, m.runs(ctx, func(ctx context.Context, run int) error {
		for _, part := range parts {
			for i := range all {
				who := &all[(i+run)%len(all)]
				if err := who.failed(ctx, r, part.name, part.measure(ctx, r, who, run)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (m *MQTT) load() Load {
	return Load{Common: m.Common, Clients: m.Clients, Publishers: m.Publishers, Size: m.Size, Warmup: m.Warmup, For: m.For}
}

func (m *MQTT) unicast(ctx context.Context, r *report.Result, who *contestant, run int) error {
	l := m.load()
	l.Rate = m.Rate
	o, err := who.measure(ctx, l, run)
	if err != nil {
		return err
	}
	return m.tell(r, "unicast at QoS 1", who, o)
}

// The rates of fan-out: at a few messages a second each delivery is a system call, for any server. Of messages that come in bursts, or as fast as they are
// published, several can leave in one; bursts leave clients the time to read everything.
const (
	fanRate   = 10 // messages or bursts a second to all
	fanBurst  = 20 // messages of a burst
	fanPaced  = "fan-out at QoS 0, ten messages a second"
	fanBursts = "fan-out at QoS 0, ten bursts of twenty messages a second"
	fanFast   = "fan-out at QoS 0, as fast as they are published"
)

// fanout measures messages to all subscribers, some of them published in a row. A rate of 0 is as fast as the publisher is answered.
func (m *MQTT) fanout(load string, rate float64, burst, clients int) func(context.Context, *report.Result, *contestant, int) error {
	return func(ctx context.Context, r *report.Result, who *contestant, run int) error {
		l := m.load()
		l.Clients, l.Publishers, l.Rate, l.Burst, l.ToAll, l.Topic = clients, 1, rate, burst, true, true
		o, err := who.measure(ctx, l, run)
		if err != nil {
			return err
		}
		return m.tell(r, load, who, o)
	}
}

// tell adds the figures of one load.
func (m *MQTT) tell(r *report.Result, load string, who *contestant, o *Outcome) error {
	if o.Counts.Received == 0 {
		return errors.New("nothing arrived")
	}
	sum := o.Latency.Summary()
	missing, _ := arrived(o.Expected, o.Counts.Received)
	for _, f := range []struct {
		name, unit string
		v          float64
	}{
		{"publishes accepted", "/s", float64(o.Published.Requests) / o.Published.Seconds},
		{"server CPU a delivery", "µs", meter.CPU(o.Server) / float64(o.Counts.Received) * 1e6},
		{"publish to client p50", "ms", sum.P50},
		{"publish to client p99", "ms", sum.P99},
		{"deliveries missing", "", float64(missing)},
	} {
		r.Add(load+": "+f.name, who.name, f.unit, f.v)
	}
	return nil
}

// on returns a testbed with a contestant's server.
func (m *MQTT) on(who *contestant) *testbed.Testbed {
	env := *m.Testbed
	env.Rival, env.Profile = who.rival, ""
	return &env
}

func (m *MQTT) connects(ctx context.Context, r *report.Result, who *contestant, run int) error {
	site, err := m.on(who).NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	m.Testbed.Say("run %d: %s: opening %d connections", run+1, who.name, m.Connects)
	w := meter.Start(site.PIDs(), 20*time.Millisecond)
	seconds, err := site.Connect(ctx, loadgen.SubscriberConfig{
		Transport: who.transport, Prefix: prefix(), Count: m.Connects, Concurrency: m.Concurrency, Heartbeat: heartbeat, Spread: true,
	}, m.Workers)
	samples := w.Stop()
	if err = errors.Join(err, site.Alive()); err != nil {
		return err
	}
	r.Add("connections opened and subscribed", who.name, "/s", float64(m.Connects)/seconds)
	r.Add("server CPU a connection", who.name, "µs", meter.CPU(samples)/float64(m.Connects)*1e6)
	return nil
}

func (m *MQTT) idle(ctx context.Context, r *report.Result, who *contestant, _ int) error {
	site, err := m.on(who).NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	idle := Idle{Common: Common{Testbed: m.Testbed, Workers: m.Workers}, Before: m.Settle, Settle: m.Settle}
	f, err := idle.footprint(ctx, site, who.transport, m.Sessions)
	if err = errors.Join(err, site.Alive()); err != nil {
		return err
	}
	r.Add("memory of an idle subscribed connection", who.name, "B", float64(f.after-f.before)/float64(m.Sessions))
	return nil
}
