package quicgate

// Waiting is how many bytes wait for clients.
func (g *Gateway) Waiting() (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.lines {
		l.mu.Lock()
		if l.session != nil {
			n += int64(l.session.Queued())
		}
		l.mu.Unlock()
	}
	return n
}
