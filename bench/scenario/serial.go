package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/stages"
)

// Serial tells how a server's CPU time divides into stages and goroutines while it is under a load, and predicts its rate with more cores.
type Serial struct {
	Common
	Of         string        // one of SerialLoads
	Threads    int           // of the server (GOMAXPROCS), so that it divides its work as on a machine with so many cores
	For        time.Duration // of a load that publishes
	Clients    int           // 0: as many as the load usually has
	Publishers int           // likewise
}

// serialLoad is a load that a server is profiled under.
type serialLoad struct {
	name, unit string // unit of what is counted
	clients    int
	publishers int
	run        func(*Serial, context.Context, *serialLoad, int) (units, cpu float64, err error)
}

func serialLoads() []serialLoad {
	return []serialLoad{
		{"unicast", "delivery", 1000, 1024, (*Serial).load},
		{"fanout", "delivery", 3000, 8, (*Serial).load},
		{"fanout-none", "delivery", 3000, 8, (*Serial).load},
		{"topics", "delivery", 2000, 2, (*Serial).load},
		{"storm", "session", 15_000, 0, (*Serial).storm},
		{"objects", "signal", 1000, 8, (*Serial).load},
		{"campaign", "push", 20_000, 0, (*Serial).campaign},
		{"gateway", "request", 64, 0, (*Serial).gateway},
	}
}

// SerialLoads returns the names of the loads.
func SerialLoads() (names []string) {
	for _, l := range serialLoads() {
		names = append(names, l.name)
	}
	return names
}

// Run profiles a server once in each run.
func (s *Serial) Run(ctx context.Context) (*report.Result, error) {
	i := slices.IndexFunc(serialLoads(), func(l serialLoad) bool { return l.name == s.Of })
	if i < 0 {
		return nil, fmt.Errorf("there is no load %q", s.Of)
	}
	of := serialLoads()[i]
	if s.Clients > 0 {
		of.clients = s.Clients
	}
	if s.Publishers > 0 {
		of.publishers = s.Publishers
	}
	bed := *s.Testbed
	bed.Server.Env = append(slices.Clip(bed.Server.Env), fmt.Sprintf("GOMAXPROCS=%d", s.Threads))
	keep := bed.Profile
	s.Testbed = &bed
	r := s.begin("serial-"+s.Of, "serial: where the CPU time of "+s.Of+" goes, and the rate that more cores allow",
		set("load", of.name), set("clients", of.clients), set("publishers", of.publishers), set("threads of the server", s.Threads), set("for", s.For))
	dir, err := os.MkdirTemp(bed.Server.Dir, "godwit-serial-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the profile: %w", err)
	}
	defer os.RemoveAll(dir)
	return r, s.runs(ctx, func(ctx context.Context, n int) error {
		s.Testbed.Profile = filepath.Join(dir, "cpu.pb.gz")
		if keep != "" {
			s.Testbed.Profile = keep
		}
		units, cpu, err := of.run(s, ctx, &of, n)
		if err != nil {
			return err
		}
		return s.tell(r, &of, n, units, cpu)
	})
}

// tell reads the profile of a run and adds what it says.
func (s *Serial) tell(r *report.Result, of *serialLoad, run int, units, cpu float64) error {
	f, err := os.Open(profileName(s.Testbed.Profile, run))
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := stages.Parse(f)
	if err != nil {
		return err
	}
	if units == 0 || cpu == 0 || b.Total == 0 {
		return errors.New("nothing was measured: with a server that runs already, its process is named with --pid")
	}
	tellSerial(r, b, of.unit, cpu/units, run)
	return nil
}

// tellCores are the numbers of cores that rates are predicted for.
func tellCores() []int { return []int{2, 4, 8, 16} }

// leastShare is the smallest share of the CPU time with which a goroutine or lock is listed.
const leastShare = 0.005

// tellSerial adds the breakdown of a profile; each unit took cpu seconds of the server.
func tellSerial(r *report.Result, b *stages.Breakdown, unit string, cpu float64, run int) {
	group := "CPU time of a " + unit
	r.Add(group, "all", "µs", cpu*1e6)
	for _, s := range b.Stages {
		r.Add(group, s.Stage, "µs", s.CPU/b.Total*cpu*1e6)
	}
	const serial = "the busiest goroutine of a kind, or a lock, of all CPU time"
	for i := range b.Places {
		if p := &b.Places[i]; p.Most >= leastShare*b.Total {
			r.Add(serial, p.Name, "%", 100*p.Most/b.Total)
		}
	}
	r.Draw(group)
	chart := unit + " rate that cores and goroutines allow"
	lines := []report.Series{{Name: "prediction"}, {Name: "all cores busy"}}
	for _, n := range tellCores() {
		p := b.Predict(cpu, n)
		group := fmt.Sprintf("rate that %d cores allow", n)
		r.Add(group, "prediction", "/s", p.Rate)
		r.Add(group, "all cores busy", "/s", float64(n)/cpu)
		lines[0].Points = append(lines[0].Points, [2]float64{float64(n), p.Rate})
		lines[1].Points = append(lines[1].Points, [2]float64{float64(n), float64(n) / cpu})
		for i := range b.Places {
			at := &b.Places[i]
			if at.Most >= leastShare*b.Total {
				r.Add(group, at.Name, "/s", b.Allows(at, cpu, n))
			}
		}
	}
	if run > 0 {
		return // drawn of one run only
	}
	for i := range min(mostLimits, len(b.Places)) {
		at := &b.Places[i]
		line := report.Series{Name: at.Name}
		for _, n := range tellCores() {
			line.Points = append(line.Points, [2]float64{float64(n), b.Allows(at, cpu, n)})
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		line.Unit, line.Over, line.Chart, line.Log = "/s", "cores", chart, true
		r.Series = append(r.Series, line)
	}
}

// mostLimits is how many places a plot shows beside the prediction: the busiest.
const mostLimits = 4

// load profiles a load of publishers and subscribers.
func (s *Serial) load(ctx context.Context, of *serialLoad, run int) (units, cpu float64, err error) {
	l := Load{
		Common: s.Common, Servers: 1, Clients: of.clients, Publishers: of.publishers, Size: 200, Transport: loadgen.WebSocketJSON, Batch: 1,
		Warmup: 2 * time.Second, For: s.For, ToAll: of.name != "unicast", AckNone: of.name == "fanout-none", Topic: of.name == "topics",
	}
	if of.name == "objects" {
		l.Objects, l.Via, l.AckAfter = true, loadgen.ViaHTTP, objectAckAfter
	}
	o, err := l.measure(ctx, run)
	if err != nil {
		return 0, 0, err
	}
	if len(o.Server) > 1 {
		cpu = meter.CPU(o.Server)
	}
	return float64(o.Counts.Received), cpu, nil
}

// objectAckAfter is how long clients of objects collect acknowledgements, as the client libraries do.
const objectAckAfter = 20 * time.Millisecond

// storm profiles the reconnect of all clients.
func (s *Serial) storm(ctx context.Context, of *serialLoad, run int) (units, cpu float64, err error) {
	c := s.Common
	c.Runs, c.First = 1, run
	storm := Storm{Common: c, Transport: loadgen.WebSocketJSON, Clients: of.clients, Pending: 2, Size: 200, Settle: time.Second}
	r, err := storm.Run(ctx)
	if err != nil {
		return 0, 0, err
	}
	if f := r.Figure("", "server CPU"); f != nil {
		cpu = f.Median
	}
	return float64(of.clients), cpu, nil
}
