package quicgate

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/http"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/problem"
)

// settings are those of QUIC beside the address of its listener.
type settings struct {
	Most     int    `key:"quic_max_connections" default:"0" min:"0" max:"10000000" group:"Limits" help:"most QUIC connections open at once, beside max_connections; 0: as many as quic_memory_mb has room for"`
	Memory   int    `key:"quic_memory_mb" default:"0" min:"0" max:"1048576" group:"Limits" help:"most MiB that QUIC connections may take, 60 KiB each and what waits for them; 0: a quarter of the memory that the process may use (memory_limit, its control groups, the machine)"`
	ServerID string `key:"quic_server_id" default:"" group:"Listeners" help:"hex digits with which the IDs of this server's QUIC connections begin, behind a byte with their length, so that a balancer finds the server of a client that has moved (QUIC-LB, plaintext): 2 to 22 of them, as many on all servers; empty: IDs are random"`
}

// Validate implements config.Validator.
func (s *settings) Validate(bad func(key, value, format string, args ...any)) {
	if b, err := hex.DecodeString(s.ServerID); err != nil || len(b) > mostServerID {
		bad("quic_server_id", s.ServerID, "is not of 2 to %d hex digits, two for each byte", 2*mostServerID)
	}
}

// Module serves QUIC at the address in the setting quic_addr.
func Module() module.Module {
	var s settings
	return module.Module{Name: "quic", Settings: &s, Start: func(_ context.Context, h *module.Host) error {
		c := newCounts()
		if err := h.Metrics(c.collectors()...); err != nil {
			return err
		}
		if err := h.Mount(Path, http.HandlerFunc(elsewhere)); err != nil {
			return err
		}
		return h.Listen(listen.Listener{Key: "quic_addr", Protocols: []string{"h3"}, Packets: func(pc net.PacketConn, conf *tls.Config) (listen.Service, error) {
			return service(h, &s, c, pc, conf)
		}})
	}}
}

// elsewhere answers at the listeners for TCP.
func elsewhere(w http.ResponseWriter, _ *http.Request) { gateway.Fail(w, notHere()) }

func notHere() error {
	return problem.UpgradeRequired.With("this path speaks WebTransport over HTTP/3, at the address in the setting quic_addr; /v1/connect speaks WebSocket")
}

func service(h *module.Host, s *settings, c *counts, pc net.PacketConn, conf *tls.Config) (listen.Service, error) {
	keys, err := LoadKeys(h.Data)
	if err != nil {
		return listen.Service{}, err
	}
	handler, err := h.Web()
	if err != nil {
		return listen.Service{}, err
	}
	id, _ := hex.DecodeString(s.ServerID) // was checked with the settings
	g := New(Config{
		Hub: h.Hub, Origins: h.Access, Handler: handler, Admit: h.Gate.Admit, Log: h.Log, Keys: keys, ServerID: id, Most: s.Most, Memory: int64(s.Memory) << 20, Queue: h.Reactor.QueueBytes(), counts: c,
	})
	return listen.Service{
		Name:     "QUIC clients",
		Run:      func(ctx context.Context) error { return g.Serve(ctx, pc, conf) },
		Shutdown: g.Shutdown,
	}, nil
}
