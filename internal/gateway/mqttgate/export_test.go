package mqttgate

// ParseFilter takes a filter apart, as the program has it for the filters of devices.
var ParseFilter = parseFilter

// Sweep does what the gateway does every ten seconds.
func (g *Gateway) Sweep() {
	g.kept.sweep()
	g.extendKept()
	g.sweepStored()
}

// ForgetAway forgets the sessions of clients that are away, as a restart does.
func (g *Gateway) ForgetAway() {
	g.kept.mu.Lock()
	defer g.kept.mu.Unlock()
	for name, s := range g.kept.all {
		if s.owner == nil {
			delete(g.kept.all, name)
			g.kept.away--
		}
	}
}
