package scenario

import (
	"fmt"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
)

// tell adds the outcome of one run to a result.
func (o *Outcome) tell(r *report.Result, group string, run int) {
	p := &o.Published
	if p.Seconds > 0 {
		r.Add(group, "publishes accepted", "/s", float64(p.Accepted)/p.Seconds)
		r.Add(group, "requests answered", "/s", float64(p.Requests)/p.Seconds)
	}
	if o.Seconds > 0 {
		r.Add(group, "deliveries", "/s", float64(o.Counts.Received)/o.Seconds)
	}
	if o.Latency != nil && o.Latency.Count() > 0 {
		s := o.Latency.Summary()
		for _, f := range []struct {
			name string
			v    float64
		}{{"p50", s.P50}, {"p90", s.P90}, {"p99", s.P99}, {"p99.9", s.P999}, {"max", s.Max}} {
			r.Add(group, "publish to client "+f.name, "ms", f.v)
		}
		r.Curves = append(r.Curves, report.Curve{Name: curveName(group, "publish to client", run), Points: o.Latency.Curve()})
	}
	if p.Latency != nil && p.Latency.Count() > 0 {
		s := p.Latency.Summary()
		r.Add(group, "publish answered p50", "ms", s.P50)
		r.Add(group, "publish answered p99", "ms", s.P99)
	}
	o.tellCost(r, group)
	o.tellFaults(r, group)
	o.tellSeries(r, group, run)
	tellShares(r, group, run, o.Shares)
}

func curveName(group, name string, run int) string {
	if group != "" {
		name = group + ", " + name
	}
	return fmt.Sprintf("%s, run %d", name, run+1)
}

func (o *Outcome) tellCost(r *report.Result, group string) {
	if len(o.Server) > 1 {
		cpu := meter.CPU(o.Server)
		r.Add(group, "server CPU", "cores", cpu/o.Seconds)
		if n := o.Counts.Received; n > 0 {
			r.Add(group, "server CPU per million deliveries", "s", cpu/float64(n)*1e6)
		}
		r.Add(group, "server memory, most", "MB", float64(meter.Peak(o.Server))/mb)
	}
	o.tellPostgres(r, group)
	if len(o.Workers) > 1 {
		r.Add(group, "load generator CPU", "cores", meter.CPU(o.Workers)/o.Seconds)
	}
	if o.Stolen > 0 {
		r.Add(group, "CPU kept by the machine's host", "cores", o.Stolen/o.Seconds)
	}
}

// tellPostgres adds PostgreSQL's resource use per copy that was stored, delivered and acknowledged.
func (o *Outcome) tellPostgres(r *report.Result, group string) {
	if o.Postgres == nil {
		return
	}
	if cpu := o.Postgres.CPU.Seconds(); cpu > 0 {
		r.Add(group, "PostgreSQL CPU", "cores", cpu/o.Seconds)
	}
	n := float64(o.Counts.Received)
	if n == 0 || o.Objects || o.Topic {
		return
	}
	if cpu := o.Postgres.CPU.Seconds(); cpu > 0 {
		r.Add(group, "PostgreSQL CPU a publish and ack", "µs", cpu/n*1e6)
	}
	r.Add(group, "write-ahead log a publish and ack", "B", float64(o.Postgres.WAL)/n)
	if o.Commits > 0 {
		r.Add(group, "copies a commit", "", n/o.Commits)
	}
}

// beyond is the figure for deliveries whose publish was not answered; for servers without numbered messages, it also counts repeated
// deliveries.
const beyond = "deliveries beyond those answered for"

// arrived returns the number of missing deliveries, or of those beyond the expected number.
func arrived(expected, received int64) (missing, more int64) {
	return max(expected-received, 0), max(received-expected, 0)
}

// lost returns an error if no publisher was left at the end: the server has gone, and rates over the whole time would hide that.
func (o *Outcome) lost(publishers int) error {
	if n := o.Published.Failed; n == 0 || n < int64(publishers) {
		return nil
	}
	return fmt.Errorf("all %d publishers lost their connections: %s", o.Published.Failed, o.Published.Why)
}

func (o *Outcome) tellFaults(r *report.Result, group string) {
	p, c := &o.Published, &o.Counts
	missing := "deliveries missing"
	if o.Objects {
		missing = "versions that a later one overtook"
	}
	if o.Topic {
		r.Add(group, "messages dropped and told as gaps", "", float64(c.Gaps))
	}
	lost, more := arrived(o.Expected, c.Received+c.Gaps)
	r.Add(group, missing, "", float64(lost))
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"deliveries twice", c.Duplicates},
		{beyond, more},
		{"deliveries out of order", c.Disorder},
		{"connections lost", c.Lost},
		{"publishes refused", p.Refused},
		{"publishes not sent in time", p.Unsent},
		{"publishers lost", p.Failed},
	} {
		if f.n > 0 || r.Figure(group, f.name) != nil {
			r.Add(group, f.name, "", float64(f.n))
		}
	}
	for _, why := range []string{p.Why, c.Why} {
		if why != "" {
			r.Note("first fault: " + why)
		}
	}
}

func (o *Outcome) tellSeries(r *report.Result, group string, run int) {
	if run > 0 {
		return // show the course over time for one run only
	}
	name := func(s string) string {
		if group != "" {
			return group + ", " + s
		}
		return s
	}
	rate, p99 := report.Series{Name: name("deliveries"), Unit: "/s"}, report.Series{Name: name("p99 in each second"), Unit: "ms"}
	for _, t := range o.Ticks {
		rate.Points = append(rate.Points, [2]float64{t.seconds, float64(t.received)})
		p99.Points = append(p99.Points, [2]float64{t.seconds, t.p99})
	}
	for _, s := range []report.Series{rate, p99, memorySeries(name("server memory"), o.Server)} {
		if len(s.Points) > 1 {
			r.Series = append(r.Series, s)
		}
	}
}
