package cluster

import "time"

// Work is what a node has done with the shared store since its start.
type Work struct {
	Commits uint64 `json:"commits,omitempty"`
	Copies  uint64 `json:"copies,omitempty"` // stored by these commits
	Queue   int    `json:"queue,omitempty"`  // operations that wait for a commit
}

// Pace is a node's work of the last seconds.
type Pace struct {
	Known     bool
	Commits   float64 // a second
	PerCommit float64 // copies stored by a commit; 0: there was no commit
	Queue     int
	Answered  time.Duration // time since the store last answered the node; negative: not known
	Lag       time.Duration // how late the hooks, sinks and sources of the node are; negative: not known
}

// paceOver is how many heartbeats a pace covers.
const paceOver = 10

// reading is a node's work at one moment.
type reading struct {
	at time.Time
	Work
}

// readings are those of the last heartbeats, the oldest first.
type readings []reading

func (rs *readings) add(at time.Time, w Work) {
	*rs = append(*rs, reading{at, w})
	if n := len(*rs); n > paceOver+1 {
		*rs = append((*rs)[:0], (*rs)[n-paceOver-1:]...)
	}
}

// noted converts milliseconds; nil: -1.
func noted(ms *int64) time.Duration {
	if ms == nil {
		return -1
	}
	return time.Duration(*ms) * time.Millisecond
}

// pace returns the work between the first and the last reading.
func (rs readings) pace(storeMS, lagMS *int64) Pace {
	p := Pace{Answered: noted(storeMS), Lag: noted(lagMS)}
	if len(rs) < 2 {
		return p
	}
	first, last := rs[0], rs[len(rs)-1]
	p.Queue = last.Queue
	took := last.at.Sub(first.at).Seconds()
	if took <= 0 || last.Commits < first.Commits || last.Copies < first.Copies {
		return p
	}
	p.Known = true
	commits := float64(last.Commits - first.Commits)
	p.Commits = commits / took
	if commits > 0 {
		p.PerCommit = float64(last.Copies-first.Copies) / commits
	}
	return p
}

// Pace returns this node's own.
func (c *Cluster) Pace() Pace {
	var ms *int64
	if c.cfg.Heard != nil {
		heard := c.cfg.Heard().Milliseconds()
		ms = &heard
	}
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	return c.nodes.own.pace(ms, c.nodes.lag)
}

// Lags notes how late the hooks, sinks and sources of this node are.
func (c *Cluster) Lags(d time.Duration) {
	ms := d.Milliseconds()
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	c.nodes.lag = &ms
}

// Backup returns the boot of the node that keeps the names of this node's recipients, too; empty: there is no other node.
func (c *Cluster) Backup() string {
	boot, _ := c.presence.backup()
	return boot
}
