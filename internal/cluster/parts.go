package cluster

import "sync/atomic"

// Part is a part of the server that exchanges messages of its own between nodes: for steps *escalation.Service, for
// traces *tracing.Tracer.
type Part interface {
	TellOthers(tell func(body []byte))
	Heard(body []byte) error
}

// JoinSteps connects steps of escalations. The content of lost messages is in the store as well.
func (c *Cluster) JoinSteps(of Part) { c.join(&c.steps, kindSteps, of) }

// JoinTraces connects traces. If a message is lost, the trace lacks that node's spans.
func (c *Cluster) JoinTraces(of Part) { c.join(&c.traces, kindTraces, of) }

func (c *Cluster) join(as *atomic.Pointer[Part], k kind, of Part) {
	of.TellOthers(func(body []byte) {
		if !c.alone() {
			_ = c.publish(allNodes, message{kind: k, body: body})
		}
	})
	as.Store(&of)
}

func (c *Cluster) gotPart(as *atomic.Pointer[Part], m *message) {
	of := as.Load()
	if of == nil {
		return
	}
	if err := (*of).Heard(m.body); err != nil {
		c.counts.undecoded.Add(1)
	}
}
