package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Compare applies the same loads to Godwit and to other servers in turn, with the same load generator.
type Compare struct {
	Common
	For      time.Duration
	Sessions int // for idle memory
	Fan      int // subscribers of fan-out
}

// Run measures each load on each server, in as many runs as configured. It skips servers that are not installed. After a failure, Run still
// returns the earlier measurements.
func (c *Compare) Run(ctx context.Context) (*report.Result, error) {
	r := c.begin("compare", "compare: the same load on Godwit and on other servers", set("for", c.For))
	r.Compared = true
	all := []contestant{
		{name: "Godwit, WebSocket, durable before the answer", transport: loadgen.WebSocketJSON, via: loadgen.ViaHTTP},
		{name: "Godwit, gRPC, durable before the answer", transport: loadgen.GRPC, via: loadgen.ViaGRPC},
	}
	for _, rival := range testbed.Rivals() {
		if _, err := rival.Path(); err != nil {
			r.Note(err.Error())
			continue
		}
		all = append(all, contestant{rival.Name, rival.Protocol, rival.Protocol, &rival})
	}
	return r, c.runs(ctx, func(ctx context.Context, run int) error {
		for _, load := range c.loads() {
			for i := range all {
				who := all[(i+run)%len(all)]
				if err := who.failed(ctx, r, load.group, c.one(ctx, r, &load, who, run)); err != nil {
					return err
				}
			}
		}
		return c.idle(ctx, r, all)
	})
}

// patienceCompared limits one load on one server, so that a program that accepts connections and never answers does not block the remaining
// ones.
const patienceCompared = time.Minute

func impatient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patienceCompared, fmt.Errorf("it took longer than %s", patienceCompared))
}

// comparedLoad is a load and the figures of it that are compared.
type comparedLoad struct {
	group string
	load  Load
	pick  map[string]string // maps names in the outcome's report to units
}

func (c *Compare) loads() []comparedLoad {
	common := c.Common
	common.Workers = max(common.Workers, 2)
	base := Load{Common: common, Clients: 1000, Publishers: 64, Warmup: time.Second, For: c.For}
	most := func(size int) Load { l := base; l.Size = size; return l }
	paced := base
	paced.Size, paced.Rate = 4096, 1000
	fan := base
	fan.Clients, fan.Publishers, fan.Size, fan.Rate, fan.ToAll = c.Fan, 8, 200, 10, true
	rate := map[string]string{"publishes accepted": "/s"}
	return []comparedLoad{
		{"most publishes, 200 B, 64 publishers, 1,000 clients", most(200), rate},
		{"most publishes, 4 KB, 64 publishers, 1,000 clients", most(4096), rate},
		{"1,000 publishes/s of 4 KB, 1,000 clients", paced, map[string]string{"publish to client p50": "ms", "publish to client p99": "ms"}},
		{
			fmt.Sprintf("fan-out to %s, 200 B, 10 messages/s", counted(c.Fan, "subscriber")), fan,
			map[string]string{"server CPU per million deliveries": "s", "publish to client p99": "ms"},
		},
	}
}

func (c *Compare) one(ctx context.Context, r *report.Result, cl *comparedLoad, who contestant, run int) error {
	ctx, done := impatient(ctx)
	defer done()
	o, err := who.measure(ctx, cl.load, run)
	if err != nil {
		return err
	}
	var found report.Result
	o.tell(&found, "", run)
	for _, name := range []string{
		"publishes accepted", "publish to client p50", "publish to client p99", "server CPU per million deliveries",
	} {
		if unit, ok := cl.pick[name]; ok {
			if f := found.Figure("", name); f != nil {
				r.Add(cl.group+": "+name, who.name, unit, f.Median)
				r.Draw(cl.group + ": " + name)
			}
		}
	}
	c.tellFaults(r, cl.group, who, o)
	return nil
}

// tellFaults adds the numbers of missing and of repeated deliveries as separate figures.
func (c *Compare) tellFaults(r *report.Result, group string, who contestant, o *Outcome) {
	missing, more := arrived(o.Expected, o.Counts.Received)
	for _, f := range []struct {
		name string
		n    int64
	}{{"deliveries missing", missing}, {beyond, more}, {"deliveries twice", o.Counts.Duplicates}} {
		if of := group + ": " + f.name; f.n > 0 || r.Figure(of, who.name) != nil {
			r.Add(of, who.name, "", float64(f.n))
		}
	}
}

// idle compares the resources of an idle connection, after memory has settled.
func (c *Compare) idle(ctx context.Context, r *report.Result, all []contestant) error {
	for _, who := range all {
		env := *c.Testbed
		env.Rival = who.rival
		bytes, err := c.idleOne(ctx, &env, who)
		if err != nil {
			if err := who.failed(ctx, r, "idle", err); err != nil {
				return err
			}
			continue
		}
		group := fmt.Sprintf("memory of one of %s idle connections", report.Format(float64(c.Sessions)))
		r.Add(group, who.name, "B", bytes)
		r.Draw(group)
	}
	return nil
}

func (c *Compare) idleOne(ctx context.Context, env *testbed.Testbed, who contestant) (float64, error) {
	ctx, done := impatient(ctx)
	defer done()
	site, err := env.NewSite(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer site.Close()
	idle := Idle{Common: Common{Testbed: env, Workers: c.Workers}, Before: settleCompared, Settle: settleCompared}
	f, err := idle.footprint(ctx, site, who.transport, c.Sessions)
	if err = errors.Join(err, site.Alive()); err != nil {
		return 0, err
	}
	return float64(f.after-f.before) / float64(c.Sessions), nil
}

// settleCompared is how long memory may settle in a comparison, before the connections are opened and again afterwards.
const settleCompared = 10 * time.Second
