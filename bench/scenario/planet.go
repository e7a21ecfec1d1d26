package scenario

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/internal/cluster"
)

// Planet measures where a deployment ends: what each node keeps of a hundred million connected recipients, what joining and leaving take,
// and what the database does with ten million. The tables, their messages and the database are real. The network is a model: bandwidth,
// transit time and the overhead of NATS are settings.
type Planet struct {
	Common
	Recipients int           // connected, over all nodes
	Nodes      []int         // numbers of nodes, one after the other
	Lasts      time.Duration // of a connection, for the rate of comings and goings
	Mbit       float64       // a second, that each node can receive
	Transit    time.Duration // of a message
	Stored     int           // recipients in the database; 0: the database is left out
	FillFor    time.Duration // after which the database has enough recipients
	Readers    int           // that compare mailboxes at once
	For        time.Duration // each measurement on the database
}

const (
	planetApp = "planet"
	// natsOverhead is the bytes around a message on a route between two NATS servers: verb, account, subject and size.
	natsOverhead = 40
	// tellEvery is the interval at which nodes report who came and left.
	tellEvery = 50 * time.Millisecond
	// planetSample limits the recipients whose memory on their own node and on its backup is measured.
	planetSample = 2_000_000
	// lookups is the number of recipients that are looked up in the tables.
	lookups = 1_000_000
)

// Run measures each number of nodes, then the database.
func (s *Planet) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("planet", "planet: tables of nodes, and a database, of very many recipients", set("connected recipients", report.Format(float64(s.Recipients))),
		set("a connection lasts", s.Lasts), set("modelled network of a node", fmt.Sprintf("%s Mbit/s, %s", report.Format(s.Mbit), s.Transit)))
	runtime.LockOSThread() // whose CPU time is measured
	defer runtime.UnlockOSThread()
	s.own(r)
	plots := newPlanetPlots()
	for _, nodes := range s.Nodes {
		if err := ctx.Err(); err != nil {
			return r, context.Cause(ctx)
		}
		if err := s.tables(r, plots, nodes); err != nil {
			return r, fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	plots.add(r)
	if s.Stored == 0 {
		return r, nil
	}
	return r, s.store(ctx, r)
}

func planetName(i int) string { return "recipient-" + strconv.Itoa(i) }

func planetHash(i int) uint64 { return cluster.HashOf(planetApp, planetName(i)) }

// heap returns the bytes of memory that are in use. Pools keep what they hold for one collection more.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// own measures what a recipient takes on its own node and on that node's backup.
func (s *Planet) own(r *report.Result) {
	s.Testbed.Say("recipients of a node itself")
	n := min(s.Recipients, planetSample)
	before := heap()
	d := cluster.NewDirectory()
	for i := range n {
		d.Connect(planetHash(i))
	}
	connected := heap()
	for first := 0; first < n; first += cluster.NamesAtOnce {
		var names []string
		for i := first; i < min(first+cluster.NamesAtOnce, n); i++ {
			names = append(names, planetName(i))
		}
		_ = d.Take(cluster.NamesMessage("other", uint64(first/cluster.NamesAtOnce+1), planetApp, names, nil)) // counts from 0
	}
	backup := heap()
	r.Add("each recipient", "memory on its node, beside the session", "B", (connected-before)/float64(n))
	r.Add("each recipient", "memory on the backup of its node, with its name", "B", (backup-connected)/float64(n))
	begun, names := meter.Thread(), 0
	d.Names(func(string, string) { names++ })
	r.Add("each recipient", "time to list it when its node has died", "ns", float64((meter.Thread()-begun).Nanoseconds())/float64(max(names, 1)))
	runtime.KeepAlive(d)
}

// tables measures one node among several.
func (s *Planet) tables(r *report.Result, plots *planetPlots, nodes int) error {
	group := fmt.Sprintf("%d nodes", nodes)
	each := s.Recipients / nodes
	v := &planetView{of: cluster.NewDirectory(), nodes: nodes, each: each}
	before := heap()
	for node := 1; node < nodes; node++ {
		s.Testbed.Say("%s: table %d of %d", group, node, nodes-1)
		if err := v.takeWhole(node); err != nil {
			return err
		}
	}
	memory := heap() - before
	others := float64(each * (nodes - 1))
	r.Add(group, "recipients on each node", "", float64(each))
	r.Add(group, "memory of the other nodes' tables", "MB", memory/mb)
	r.Add(group, "memory of a recipient elsewhere", "B", memory/others)

	network := v.bytes / (s.Mbit * 1e6 / 8)
	paced := v.bytes / cluster.TableBytesASecond(nodes-1)
	join := max(network, v.took.Seconds(), paced) + (time.Second + 2*s.Transit).Seconds() // the beat that tells of the table comes within a second
	r.Add(group, "join: bytes to receive", "MB", v.bytes/mb)
	r.Add(group, "join: one core's time to read them", "s", v.took.Seconds())
	r.Add(group, "join: modelled time on the network", "s", network)
	r.Add(group, "join: time by the pace at which nodes send tables", "s", paced)
	r.Add(group, "join: until all tables are there", "s", join)
	r.Add(group, "join: each other node's time to send its table", "ms", float64(v.made.Milliseconds())/float64(nodes-1))

	lookup := v.lookUp()
	r.Add(group, "route: time to find the nodes of a recipient", "µs", lookup)
	gossip, applied, err := s.gossip(v)
	if err != nil {
		return err
	}
	r.Add(group, "gossip: bytes each node receives", "kB/s", gossip/1e3)
	r.Add(group, "gossip: bytes of all nodes", "MB/s", gossip*float64(nodes)/1e6)
	r.Add(group, "gossip: one core's share on each node", "%", applied*100)

	v.of.Forget(boot(nodes - 1)) // at once, since the table is dropped whole
	r.Add(group, "leave: bytes of all nodes for those who connect elsewhere", "MB", s.moved(nodes, each)/mb)
	plots.point(nodes, memory/mb, join, gossip/1e3, lookup)
	return nil
}

func boot(node int) string { return fmt.Sprintf("boot-%08d", node) }

// planetView is the view of node 0. Node k has the recipients from k × each on.
type planetView struct {
	of          *cluster.Directory
	nodes, each int
	bytes       float64       // received, with the overhead of the network
	took, made  time.Duration // CPU time of reading, and of making, whole tables
}

// takeWhole makes the messages of a node's whole table and reads them.
func (v *planetView) takeWhole(node int) error {
	v.of.Heard(boot(node), 1)
	parts := uint64(max(1, (v.each+cluster.HashesAtOnce-1)/cluster.HashesAtOnce)) // positive
	hashes := make([]uint64, 0, cluster.HashesAtOnce)
	for part := range parts {
		hashes = hashes[:0]
		first := int(part) * cluster.HashesAtOnce // below the number of recipients
		for i := first; i < min(first+cluster.HashesAtOnce, v.each); i++ {
			hashes = append(hashes, planetHash(node*v.each+i))
		}
		begun := meter.Thread()
		data := cluster.TableMessage(boot(node), 1, part+1, parts, hashes, nil)
		made := meter.Thread()
		if err := v.of.Take(data); err != nil {
			return err
		}
		v.took += meter.Thread() - made
		v.made += made - begun
		v.bytes += float64(len(data) + natsOverhead)
	}
	return nil
}

// lookUp returns the microseconds that a publish needs to find the nodes of a recipient.
func (v *planetView) lookUp() float64 {
	names := make([]string, lookups)
	all := v.nodes * v.each
	for i := range names {
		names[i] = planetName(int(uint64(i) * 2_654_435_761 % uint64(all))) // scattered over all
	}
	var room [4]string
	begun := meter.Thread()
	for _, name := range names {
		v.of.Nodes(room[:0], planetApp, name)
	}
	return float64((meter.Thread() - begun).Nanoseconds()) / lookups / 1e3
}

// gossip returns the bytes a second that a node receives while recipients come and go, and the seconds of CPU time a second for reading the
// tables' changes. Names go to one other node only.
func (s *Planet) gossip(v *planetView) (bytes, cpu float64, err error) {
	events := float64(v.each) / s.Lasts.Seconds() * tellEvery.Seconds() // that come to a node in one interval; as many leave
	some := max(int(events), 1)
	came, left := make([]uint64, some), make([]uint64, some)
	names := make([]string, some)
	for i := range some {
		came[i], left[i] = planetHash(s.Recipients+i), planetHash(v.each+i)
		names[i] = planetName(s.Recipients + i)
	}
	perSecond := events / float64(some) / tellEvery.Seconds() // messages of each node
	change := cluster.TableMessage(boot(1), 2, 0, 0, came, left)
	begun := meter.Thread()
	if err := v.of.Take(change); err != nil {
		return 0, 0, err
	}
	took := (meter.Thread() - begun).Seconds()
	others := float64(v.nodes - 1)
	messages := (some*2 + cluster.HashesAtOnce - 1) / cluster.HashesAtOnce
	size := float64(len(change) + messages*natsOverhead)
	beat := float64(len(cluster.BeatMessage(boot(1), v.each, 24*time.Hour)) + natsOverhead)
	roster := float64(len(cluster.NamesMessage(boot(1), 2, planetApp, names, names)) + natsOverhead)
	return others*(perSecond*size+beat) + perSecond*roster, others * perSecond * took, nil
}

// moved returns the bytes that all nodes receive when the recipients of a node that has left connect to the others.
func (s *Planet) moved(nodes, each int) float64 {
	if nodes < 3 {
		return 0
	}
	hashes := make([]uint64, cluster.HashesAtOnce)
	for i := range hashes {
		hashes[i] = planetHash(i)
	}
	full := float64(len(cluster.TableMessage(boot(1), 2, 0, 0, hashes, nil)) + natsOverhead)
	return float64(each) / cluster.HashesAtOnce * full * float64(nodes-2)
}

// planetPlots are the figures by the number of nodes.
type planetPlots struct{ memory, join, gossip, lookup report.Series }

func newPlanetPlots() *planetPlots {
	of := func(name, unit string) report.Series { return report.Series{Name: name, Unit: unit, Over: "nodes"} }
	return &planetPlots{
		memory: of("memory of the other nodes' tables, on each node", "MB"), join: of("time of a join", "s"),
		gossip: of("gossip that each node receives", "kB/s"), lookup: of("time to find the nodes of a recipient", "µs"),
	}
}

func (p *planetPlots) point(nodes int, memory, join, gossip, lookup float64) {
	for _, of := range []struct {
		to *report.Series
		v  float64
	}{{&p.memory, memory}, {&p.join, join}, {&p.gossip, gossip}, {&p.lookup, lookup}} {
		of.to.Points = append(of.to.Points, [2]float64{float64(nodes), of.v})
	}
}

func (p *planetPlots) add(r *report.Result) {
	for _, s := range []report.Series{p.memory, p.join, p.gossip, p.lookup} {
		if len(s.Points) > 1 {
			r.Series = append(r.Series, s)
		}
	}
}
