// Package watch collects data about this server for its operators: statistics of the last hour, refusals and warnings, and
// advice about its state. All of it is in memory and limited.
package watch

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Every is the interval of readings of the figures.
	Every = 5 * time.Second
	// Kept is the time for which readings are stored.
	Kept = time.Hour

	kept = int(Kept / Every)
)

// Watch collects data about a server.
type Watch struct {
	refused, failed atomic.Uint64 // calls
	log             book

	mu     sync.Mutex
	last   Totals
	calls  [2]uint64 // counts of refused and failed calls at the last reading
	at     time.Time // time of the last reading; zero: there was none
	began  time.Time
	points []point // a ring
	next   int
	news   chan struct{} // closed at the next reading
}

// point is one interval.
type point struct {
	at     time.Time // its end
	took   float64   // seconds
	values []float64 // as in all
	push   []count   // those that are not 0
}

type count struct {
	Ended
	n uint64
}

// New makes a watch without any data.
func New() *Watch {
	return &Watch{news: make(chan struct{}), log: newBook()}
}

// Run reads the figures until ctx ends.
func (w *Watch) Run(ctx context.Context, look func() Totals) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		w.Read(time.Now(), look())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Read adds a reading; the first only sets the base for later differences.
func (w *Watch) Read(now time.Time, totals Totals) {
	calls := [2]uint64{w.refused.Load(), w.failed.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.at.IsZero() {
		w.keep(now, &totals, calls)
	} else {
		w.began = now
	}
	w.last, w.calls, w.at = totals, calls, now
	close(w.news)
	w.news = make(chan struct{})
}

func (w *Watch) keep(now time.Time, totals *Totals, calls [2]uint64) {
	s := span{
		before: &w.last, now: totals, seconds: max(now.Sub(w.at).Seconds(), 1e-3), publish: since(totals.Publish, w.last.Publish),
		requests: [2]uint64{calls[0] - w.calls[0], calls[1] - w.calls[1]},
	}
	p := point{at: now, took: s.seconds, values: make([]float64, len(all))}
	for i := range all {
		p.values[i] = all[i].of(&s)
	}
	for e, n := range totals.Push {
		if n -= w.last.Push[e]; n > 0 {
			p.push = append(p.push, count{e, n})
		}
	}
	if len(w.points) < kept {
		w.points = append(w.points, p)
		return
	}
	w.points[w.next] = p
	w.next = (w.next + 1) % kept
}

// History holds the figures of a period, the oldest first.
type History struct {
	Since  time.Time // start of the data; zero: there is none yet
	At     []time.Time
	Values map[string][]Number // by the series' name
	Push   map[Ended]uint64    // number of messages that ended in this period

	took []float64 // seconds
}

// Number is a figure; NaN, which JSON writes as null, means that there is none.
type Number float64

// MarshalJSON implements json.Marshaler: three digits behind the point are enough for people and for plots.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(float64(n)*1e3)/1e3, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*n = Number(f)
	return err
}

// Last returns the readings of the time d before now. The result does not change afterwards.
func (w *Watch) Last(d time.Duration) History {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := History{Since: w.began, Values: make(map[string][]Number, len(all)), Push: make(map[Ended]uint64)}
	if len(w.points) == kept {
		h.Since = w.points[w.next].at.Add(-Every)
	}
	after := w.at.Add(-d)
	for i := range w.points {
		p := &w.points[(w.next+i)%len(w.points)]
		if !p.at.After(after) {
			continue
		}
		h.At, h.took = append(h.At, p.at), append(h.took, p.took)
		for k := range all {
			h.Values[all[k].Name] = append(h.Values[all[k].Name], Number(p.values[k]))
		}
		for _, c := range p.push {
			h.Push[c.Ended] += c.n
		}
	}
	return h
}

// Sum returns the total of a series that counts per second.
func (h *History) Sum(name string) (n uint64) {
	var all float64
	for i, v := range h.Values[name] {
		all += float64(v) * h.took[i]
	}
	return uint64(math.Round(all))
}

// Now returns the newest value of each series; nil: there is none yet.
func (w *Watch) Now() map[string]Number {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.points) == 0 {
		return nil
	}
	p := &w.points[(w.next+len(w.points)-1)%len(w.points)]
	now := make(map[string]Number, len(all))
	for k := range all {
		now[all[k].Name] = Number(p.values[k])
	}
	return now
}

// News returns a channel that is closed at the next reading.
func (w *Watch) News() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}

// Server describes this server. Data of other packages comes from functions.
type Server struct {
	*Watch
	Node string // its name
	// Together returns the newest figures, summed over all nodes.
	Together func(ctx context.Context) Sum
	// Advise lists the conditions that people of an app should handle.
	Advise func(ctx context.Context, app string) []Advice
	// Nodes describes all known nodes.
	Nodes func(ctx context.Context) (Nodes, error)
	// Live returns the topics and subjects of an app's sessions on this node, and counts of connections by gateway.
	Live func(app string) Live
	// Settings returns the server's settings.
	Settings func() []Setting
	// Sole reports whether the app is the only one on the server, so that all that concerns the server concerns this app.
	Sole func(app string) bool
}

// Alone describes a server without other nodes.
func Alone(w *Watch, node string) *Server {
	return &Server{
		Watch: w, Node: node,
		Together: func(context.Context) (s Sum) { s.Add(w.Now()); return s },
		Advise:   func(context.Context, string) []Advice { return nil },
		Nodes:    func(context.Context) (Nodes, error) { return Nodes{List: []Node{{Name: node, State: "self"}}}, nil },
		Live:     func(string) Live { return Live{} },
		Settings: func() []Setting { return nil },
		Sole:     func(string) bool { return false },
	}
}

// Sum adds up the newest figures of several nodes.
type Sum struct {
	Nodes   int  // that it is of
	Partial bool // some could not be asked
	Values  map[string]Number
}

// Add adds a node's figures. Of the publishes' latencies it takes the highest.
func (s *Sum) Add(values map[string]Number) {
	s.Nodes++
	if s.Values == nil {
		s.Values = make(map[string]Number, len(values))
	}
	for name, v := range values {
		was, there := s.Values[name]
		switch {
		case !there || math.IsNaN(float64(was)):
			s.Values[name] = v
		case math.IsNaN(float64(v)):
		case name == P50 || name == P99:
			s.Values[name] = max(was, v)
		case name == Free:
			s.Values[name] = min(was, v)
		default:
			s.Values[name] = was + v
		}
	}
}

// Setting is one of the server's settings, without secrets.
type Setting struct {
	Group, Key, Value, Default, Origin, Help string
}

// Nodes describes the processes of the server.
type Nodes struct {
	List   []Node  // this one first
	Owned  []Lease // on work that only one node does at a time
	Oldest string  // who keeps the shared database from removing dead rows; empty: nobody
}

// Node is a process of the server.
type Node struct {
	Name, Version, State string // self, alive, missing, draining
	Sessions             int
	Up, Offset, Heard    time.Duration // Up: time since its start; Offset: how far its clock is ahead of ours; Heard: time since its last message, 0: it is this node
	Why                  string        // it is missing
	Work                 *NodeWork     // nil: not known, or there is one node
}

// NodeWork is the work of a node of several, with the shared database in the last seconds.
type NodeWork struct {
	Backup          string         // the node that keeps the names of its recipients, too
	Lag             *time.Duration // of its hooks, sinks and sources; nil: not known
	Commits, Copies float64        // commits a second, and copies that a commit stored
	Queue           int            // operations that wait for a commit
	Answered        time.Duration  // time since the database answered it
}

// Lost is a node that is missing.
type Lost struct {
	Name, Why string
	Silent    time.Duration // time since its last message; 0: there was none
	Ended     bool          // the node is dead, as far as the store shows
}

// Lease is work that only one node does at a time, with its holder and end.
type Lease struct {
	Name, Holder string
	Until        time.Time
}
