package cluster

// Steps are those of escalations, as this package needs them: *escalation.Service.
type Steps interface {
	TellOthers(tell func(body []byte))
	Heard(body []byte) error
}

// JoinSteps has steps take part. What gets lost is found in the store.
func (c *Cluster) JoinSteps(of Steps) {
	of.TellOthers(func(body []byte) {
		if !c.alone() {
			_ = c.publish(allNodes, message{kind: kindSteps, body: body})
		}
	})
	c.steps.Store(&of)
}

func (c *Cluster) gotSteps(m *message) {
	of := c.steps.Load()
	if of == nil {
		return
	}
	if err := (*of).Heard(m.body); err != nil {
		c.counts.undecoded.Add(1)
	}
}
