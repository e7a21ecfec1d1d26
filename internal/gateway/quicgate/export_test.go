package quicgate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Brisk has short times.
func Brisk() Config {
	return Config{patience: 200 * time.Millisecond, answer: 50 * time.Millisecond, linger: 50 * time.Millisecond}
}

// Patient lets an answer take a minute to arrive.
func Patient() Config { return Config{linger: time.Minute} }

// Suspect uses up the handshakes that need no retry token.
func (g *Gateway) Suspect() { g.retries.SetBurst(0); g.retries.SetLimit(0) }

// Retries is how many retry tokens were sent.
func (g *Gateway) Retries() float64 { return value(g.counts.retries) }

// Moves is how many changes of clients' addresses there were.
func (g *Gateway) Moves() float64 { return value(g.counts.moves) }

func value(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

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

// ServerIDs makes connection IDs of a server.
type ServerIDs = serverIDs

// LineBytes is what a connection costs.
const LineBytes = lineBytes

// Ended is how many sessions a party has ended: client, server or lost.
func (g *Gateway) Ended(by string) float64 { return value(g.counts.ends.WithLabelValues(by)) }

// ReadClose reads a client's direction of a request's stream.
var ReadClose = readClose
