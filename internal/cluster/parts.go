package cluster

import "sync/atomic"

// Part is a part of the server that exchanges its own messages between nodes: *escalation.Service for steps, *tracing.Tracer for traces, *badge.Service for the numbers on icons.
type Part interface {
	TellOthers(tell func(body []byte))
	Heard(body []byte) error
}

// JoinSteps connects steps of escalations with the cluster. The store also has the content of lost messages.
func (c *Cluster) JoinSteps(of Part) { c.join(&c.steps, kindSteps, of) }

// JoinTraces connects traces with the cluster. If a message is lost, the trace lacks that node's spans.
func (c *Cluster) JoinTraces(of Part) { c.join(&c.traces, kindTraces, of) }

// JoinBadges connects the numbers on icons with the cluster. If a message is lost, devices get one message more.
func (c *Cluster) JoinBadges(of Part) { c.join(&c.badges, kindBadges, of) }

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
