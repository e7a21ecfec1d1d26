package cluster

import "sync/atomic"

// Part is one that nodes tell each other of in words of its own: of steps *escalation.Service, of traces *tracing.Tracer.
type Part interface {
	TellOthers(tell func(body []byte))
	Heard(body []byte) error
}

// JoinSteps lets steps of escalations take part. The store has what lost messages said.
func (c *Cluster) JoinSteps(of Part) { c.join(&c.steps, kindSteps, of) }

// JoinTraces lets traces take part. If a message is lost, the trace lacks that node's spans.
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
