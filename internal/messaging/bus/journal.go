package bus

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// journal writes the bus's messages about connections with other nodes to the server's log. NATS repeats each attempt every second, so each
// address gets at most one line a minute.
type journal struct {
	log    *slog.Logger
	secret string

	mu      sync.Mutex
	said    map[string]time.Time
	differs time.Time // when a connection between this node and another was last refused because of the secret
}

const (
	sayAgain = time.Minute
	mostSaid = 256 // most lines that are remembered to avoid repetition
)

func newJournal(log *slog.Logger, secret string) *journal {
	return &journal{log: log, secret: secret, said: make(map[string]time.Time)}
}

const secretDiffers = "cluster_secret_file differs"

// sayings are the problems that operators must learn of, each with a part of the text that NATS logs.
var sayings = []struct{ part, message string }{
	{"route handshake error", "no TLS connection with another node; look at cluster_tls_cert and cluster_tls_ca of both"},
	{"Error flushing", "another node ended the connection; if it goes on doing so, its log says why: it may not take cluster_tls_cert"},
	{"authentication error", "refused another node: its " + secretDiffers},
	{"Authorization Violation", "another node refuses this one: its " + secretDiffers},
	{"authentication timeout", "refused a connection to cluster_addr: it does not say who it is"},
	{"Authentication Timeout", "another node gave up on this one before it had said who it is"},
	{"trying to connect to route", "another node cannot be reached, will go on trying"},
	{"cluster name", "refused what connected to cluster_addr: it is a NATS server of another cluster, and no node"},
	{"connected to route port", "refused what connected to cluster_addr: it is a NATS client, and no node"},
	{"Slow Consumer", "another node is too slow, its connection is made anew"},
	{"Stale Connection", "another node fell silent, its connection is made anew"},
	{"duplicate name", "another node calls itself by the name and boot of this one"},
}

// Noticef implements server.Logger. Only opened and closed connections are logged, at debug level.
func (j *journal) Noticef(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); strings.Contains(text, "Route") {
		j.log.Debug("connection with another node", "nats", j.clean(text))
	}
}

// Warnf implements server.Logger.
func (j *journal) Warnf(format string, v ...any) { j.say(fmt.Sprintf(format, v...)) }

// Errorf implements server.Logger.
func (j *journal) Errorf(format string, v ...any) { j.say(fmt.Sprintf(format, v...)) }

// Fatalf implements server.Logger. The problem that NATS reports here also makes the start of the server fail.
func (j *journal) Fatalf(format string, v ...any) { j.say(fmt.Sprintf(format, v...)) }

// Debugf implements server.Logger.
func (j *journal) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (j *journal) Tracef(string, ...any) {}

// say writes a line, with the other node's address and the reason.
func (j *journal) say(text string) {
	text = j.clean(text)
	message := "NATS says"
	for _, s := range sayings {
		if strings.Contains(text, s.part) {
			message = s.message
			break
		}
	}
	if strings.HasSuffix(message, secretDiffers) {
		j.mu.Lock()
		j.differs = time.Now()
		j.mu.Unlock()
	}
	addr, why := "", text
	if parts := strings.SplitN(text, " - ", 3); len(parts) == 3 { // address, connection, text
		addr, why = parts[0], parts[2]
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if !j.first(message+host, time.Now()) {
		return
	}
	args := []any{"problem", message, "error", why}
	if addr != "" { // some texts of NATS contain no address
		args = append(args, "address", addr)
	}
	j.log.Warn("message bus between nodes", args...)
}

// secretDiffers reports whether a connection was recently refused because the secrets differ. NATS repeats each attempt every second.
func (j *journal) secretDiffers() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.differs.IsZero() && time.Since(j.differs) < sayAgain
}

// first reports whether this line was not written recently.
func (j *journal) first(line string, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at, ok := j.said[line]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if len(j.said) >= mostSaid {
		clear(j.said)
	}
	j.said[line] = now
	return true
}

// clean removes the cluster's secret from a text.
func (j *journal) clean(text string) string {
	if j.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, j.secret, "xxxxx")
}
