// Package conns starts the parts that serve the connections of all listeners: the event loops, the gate that admits connections, and limits
// by address and key.
package conns

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/config"
)

// Connections are what listeners share.
type Connections struct {
	Reactor  *reactor.Reactor
	Gate     *admission.Gate
	Connects *limit.Addrs // of new connections
	Acks     *limit.Addrs // of acknowledgements by token
	Signups  *limit.Addrs // of registrations without a token
	Publish  *limit.Keys
	Operator *limit.Addrs // of calls with an operator key
}

// operatorRate limits the calls with an operator key from one address, in calls a second: a program that works on many apps stays below it.
const operatorRate = 50

// Start starts the parts before any listener opens. The gate calls opening for each connection that it admits.
func Start(g *ground.Ground, opening func()) (*Connections, error) {
	s := g.Settings
	driver := s.ReactorDriver
	if driver == "auto" {
		driver = ""
	}
	loops, err := reactor.New(reactor.Config{
		Loops: s.ReactorLoops, Driver: driver, QueueBytes: int(s.QueueBytes), TotalBytes: int64(s.QueueTotal),
	}, g.Log)
	if err != nil {
		return nil, err
	}
	g.Steps.AddClose("reactor", time.Second, loops.Close)
	c := &Connections{
		Reactor:  loops,
		Connects: limit.NewAddrs(s.LimitConnects.PerSecond(), s.LimitLoopback),
		Acks:     limit.NewAddrs(s.LimitHellos.PerSecond(), s.LimitLoopback),
		Signups:  limit.NewAddrs(s.LimitSignups.PerSecond(), s.LimitLoopback),
		Publish:  limit.NewKeys(s.LimitPublish.PerSecond()),
		Operator: limit.NewAddrs(operatorRate, s.LimitLoopback),
	}
	most, mostOf := shares(s, g.Log)
	c.Gate = admission.New(admission.Config{Limit: c.Connects, Conns: limit.NewConns(most, mostOf, s.LimitLoopback), Opening: opening})
	c.register(g.Registry)
	return c, nil
}

// Limits returns the limits of a listener whose connections are on the event loops from the start.
func (c *Connections) Limits() reactor.Limits {
	return reactor.Limits{Handshake: admission.Patience, Admit: c.Gate.Admit, NoFiles: c.Gate.NoFiles}
}

// addrShare limits one address to this fraction (1/4) of all connections, unless a setting changes it, so that a stranger cannot use up all
// of them.
const addrShare = 4

// shares returns the limits of open connections: most in total, mostOf from one address.
func shares(s *config.Config, log *slog.Logger) (most, mostOf int) {
	most, mostOf = s.MaxConnections, s.MaxPerAddress
	possible := connectionLimit(fileLimit())
	if most > possible {
		log.Warn("max_connections is more than the file limit allows: raise that too (ulimit -n, LimitNOFILE of systemd)",
			"max_connections", most, "allowed", possible)
	}
	if most == 0 || most > possible {
		most = possible
	}
	if mostOf == 0 && s.CompatOn() { // all clients of the replaced service may come from the address of a proxy
		mostOf = most
	}
	if mostOf == 0 {
		mostOf = max(most/addrShare, 1)
	}
	return most, mostOf
}

// fileLimit returns the number of descriptors that the process may open. The Go runtime has raised it to the hard limit.
func fileLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}

// reservedFiles are descriptors kept for stores, listeners, logs and outgoing connections.
const reservedFiles = 160

// connectionLimit returns the number of connections that may be open under a limit of descriptors. Under a very low limit, the server
// itself gets most descriptors.
func connectionLimit(files int) int { return max(files-reservedFiles, files/4) }

// register exports the counters of parts that do not export their own to Prometheus.
func (c *Connections) register(registry *prometheus.Registry) {
	figure := func(name, help string, f func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	total := func(name, help string, f func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
	}
	figure("godwit_connections", "Connections on the event loops.", func() float64 { return float64(c.Reactor.Stats().Connections) })
	figure("godwit_connections_queued_bytes", "Bytes that wait for clients to take them.", func() float64 { return float64(c.Reactor.Stats().Queued) })
	for _, why := range admission.Reasons() {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "godwit_connections_refused_total", Help: "Connections that were refused, or closed because they sent no request in time.",
			ConstLabels: prometheus.Labels{"reason": why.String()},
		}, func() float64 { return float64(c.Gate.Refused(why)) }))
	}
	total("godwit_connections_read_bytes_total", "Bytes read by the event loops since start.", func() float64 { return float64(c.Reactor.Stats().BytesIn) })
	total("godwit_connections_written_bytes_total", "Bytes written by the event loops since start.", func() float64 { return float64(c.Reactor.Stats().BytesOut) })
}
