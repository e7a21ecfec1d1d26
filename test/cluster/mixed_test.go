package cluster

import (
	"math/rand/v2"
	"syscall"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// mixed are the faults of a history; each ends before its function returns.
var mixed = []struct {
	name string
	do   func(p *past, node int, lasts time.Duration)
}{
	{"kill", (*past).kill},
	{"cut", (*past).cut},
	{"one node without PostgreSQL", (*past).without},
	{"a node stands still", (*past).freeze},
	{"PostgreSQL is killed", (*past).killPostgres},
	{"a node joins", (*past).join},
	{"drain", (*past).drain},
	{"no node has PostgreSQL", (*past).withoutAll},
}

// faults runs the faults one after the other.
func (p *past) faults() {
	p.t.Helper()
	first := rand.N(len(mixed))
	for begun, n := time.Now(), first; time.Since(begun) < *historyFor && !p.t.Failed(); n++ {
		f := mixed[n%len(mixed)]
		p.begun = append(p.begun, f.name)
		f.do(p, rand.N(int(p.runs.Load())), time.Second+rand.N(max(time.Second, *historyFor/40)))
		p.pass(rand.N(time.Second)) // a pause without faults, or nearly
	}
}

// launches is how often a node is started that ends because it did not reach PostgreSQL, as a machine's supervisor would.
const launches = 5

func (p *past) launch(n *blackbox.Server) {
	p.t.Helper()
	for try := 1; ; try++ {
		err := n.Launch()
		if err == nil {
			return
		}
		if !n.Exited() || try == launches {
			p.t.Fatal(err)
		}
		p.t.Logf("a node that starts ended: %v", err)
	}
}

func (p *past) kill(node int, lasts time.Duration) {
	n := p.c.Nodes[node]
	n.Kill()
	p.pass(lasts)
	p.launch(n)
}

func (p *past) cut(node int, lasts time.Duration) {
	other := (node + 1) % int(p.runs.Load())
	p.c.Cut(node, other)
	p.pass(lasts)
	p.c.Heal(node, other)
}

func (p *past) without(node int, lasts time.Duration) {
	p.wires[node].Cut()
	p.pass(lasts)
	p.wires[node].Heal()
}

func (p *past) withoutAll(_ int, lasts time.Duration) {
	for _, w := range p.wires {
		w.Cut()
	}
	p.pass(lasts)
	for _, w := range p.wires {
		w.Heal()
	}
}

func (p *past) freeze(node int, lasts time.Duration) {
	pid := p.c.Nodes[node].PID()
	_ = syscall.Kill(pid, syscall.SIGSTOP) // it runs
	p.pass(lasts)
	_ = syscall.Kill(pid, syscall.SIGCONT) // it runs
}

func (p *past) killPostgres(int, time.Duration) { p.db.Restart(p.t) }

// join starts one more node, lets it take part, and stops it.
func (p *past) join(_ int, lasts time.Duration) {
	n := p.c.Nodes[p.runs.Load()]
	p.launch(n)
	p.runs.Add(1)
	p.pass(lasts)
	p.runs.Add(-1)
	n.Stop()
}

// drain makes a node send its sessions away, stop and restart.
func (p *past) drain(node int, lasts time.Duration) {
	n := p.c.Nodes[node]
	if out, err := n.Run("drain", "--data", n.Dir); err != nil {
		p.t.Errorf("drain: %s %v", out, err)
	}
	p.pass(lasts)
	n.Stop()
	p.launch(n)
}

// pass waits while a fault lasts and clients continue.
func (p *past) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.t.Context().Done():
	}
}
