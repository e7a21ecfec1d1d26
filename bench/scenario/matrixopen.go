package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// OpenConnections compares protocols with many connections open, of which some get a notification at intervals and the others nothing.
type OpenConnections struct {
	Common
	Rows   []int         // numbers of open connections
	Active int           // connections that get something
	Every  time.Duration // interval of the notifications to each of these
	Size   int           // bytes of data in each
	For    time.Duration
	Rivals bool // also measure Mosquitto, if it is installed
}

const (
	// mostServers is the number of servers that hold the connections of a row, and of load generators: more processes than that compete for
	// a machine's cores by themselves.
	mostServers = 8
	// patienceOpen limits one row of one contestant. Opening 100,000 connections takes a minute or two on two busy cores.
	patienceOpen = 8 * time.Minute
)

// Run measures every row for every contestant. After a failure, Run still returns the earlier measurements.
func (s *OpenConnections) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("matrix-open", "matrix: latency and cost by open connections, of which few are active",
		set("open connections", s.Rows), set("active", s.Active), set("a notification to each of these every", s.Every), set("size", fmt.Sprintf("%d B", s.Size)),
		set("for", s.For), set("heartbeats", "none; over SSE a comment every 30s"))
	r.Compared = true
	all := []contestant{
		{name: "Godwit, WebSocket, durable before the answer", transport: loadgen.WebSocketJSON, via: loadgen.ViaHTTP},
		{name: "Godwit, gRPC, durable before the answer", transport: loadgen.GRPC, via: loadgen.ViaGRPC},
		{name: "Godwit, SSE, durable before the answer", transport: loadgen.SSE, via: loadgen.ViaHTTP},
	}
	if s.Rivals {
		all = s.addMosquitto(r, all)
	}
	each, err := mostEach()
	if err != nil {
		return r, err
	}
	for _, row := range s.Rows {
		for i := range all {
			if err := all[i].failed(ctx, r, openRow(row), s.row(ctx, r, &all[i], row, each)); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func openRow(n int) string { return report.Format(float64(n)) + " open connections" }

// mostEach returns how many connections a process holds here: so many that it has files to spare.
func mostEach() (int, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return fitting(files.Cur), nil
}

// fitting returns how many connections a process holds that may open so many files.
func fitting(files uint64) int {
	if files >= 2*worker.MostConnections {
		return worker.MostConnections
	}
	return min(int(files)*17/20, worker.MostConnections)
}

// reached returns how many of row's connections are opened, on how many servers that hold each connections at most.
func reached(row, each int) (connections, servers int) {
	servers = min((row+each-1)/each, mostServers)
	return min(row, servers*each), servers
}

// openQuantities are the compared quantities.
var openQuantities = []struct {
	name, unit string
	drawn      bool
}{
	{"mean", "ms", false},
	{"deviation", "ms", false},
	{"p50", "ms", true},
	{"p99", "ms", true},
	{"server CPU", "cores", true},
	{"server memory, most", "MB", true},
	{"connections held", "", false},
	{"deliveries missing", "", false},
}

func (s *OpenConnections) row(ctx context.Context, r *report.Result, who *contestant, row, each int) error {
	ctx, done := context.WithTimeoutCause(ctx, patienceOpen, fmt.Errorf("it took longer than %s", patienceOpen))
	defer done()
	connections, servers := reached(row, each)
	r.Note(fmt.Sprintf("%s: %s were opened, on %s and from as many load generators, each of at most %s connections, which the limit of open files of a process allows",
		openRow(row), report.Format(float64(connections)), counted(servers, "server"), report.Format(float64(each))))
	common := s.Common
	common.Workers = servers
	o, err := who.measure(ctx, Load{
		Common: common, Servers: servers, Clients: connections, Active: s.Active, Publishers: 4, Size: s.Size,
		Rate: float64(s.Active) / s.Every.Seconds(), Warmup: s.Every, For: s.For,
	}, 0)
	if err != nil {
		return err
	}
	if o.Counts.Received == 0 {
		return errors.New("no notification arrived")
	}
	s.tell(r, who, row, o)
	return nil
}

func (s *OpenConnections) tell(r *report.Result, who *contestant, row int, o *Outcome) {
	var found report.Result
	o.tell(&found, "", 0)
	sum := o.Latency.Summary()
	missing, _ := arrived(o.Expected, o.Counts.Received)
	values := map[string]float64{
		"mean": sum.Mean, "deviation": sum.Sigma, "p50": sum.P50, "p99": sum.P99,
		"connections held": float64(o.Counts.Live), "deliveries missing": float64(missing),
	}
	for _, q := range openQuantities {
		v, ok := values[q.name]
		if f := found.Figure("", q.name); f != nil && !ok {
			v, ok = f.Median, true
		}
		group := openRow(row) + ": " + q.name
		if ok {
			r.Add(group, who.name, q.unit, v)
		}
		if ok && q.drawn {
			r.Draw(group)
		}
	}
	for _, note := range found.Notes {
		r.Note(who.name + ": " + note)
	}
}

// addMosquitto adds Mosquitto if it is installed, or a note that it is not.
func (c *Common) addMosquitto(r *report.Result, all []contestant) []contestant {
	mosquitto := testbed.Rivals()[0]
	if _, err := mosquitto.Path(); err != nil {
		r.Note(err.Error())
		return all
	}
	return append(all, contestant{mosquitto.Name, mosquitto.Protocol, mosquitto.Protocol, &mosquitto})
}
