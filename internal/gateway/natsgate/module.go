package natsgate

import (
	"context"
	"crypto/tls"
	"net"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

// Module serves NATS clients at the address in the setting nats_addr, and the pages of a NATS server for monitoring on the HTTP listener.
func Module() module.Module {
	return module.Module{Name: "nats", Start: func(_ context.Context, h *module.Host) error {
		if err := h.Route(pages(h.Bus)...); err != nil {
			return err
		}
		return h.Listen(listen.Listener{Key: "nats_addr", Serve: func(ln net.Listener, conf *tls.Config) (listen.Service, error) {
			return service(h, ln, conf)
		}})
	}}
}

// service makes the server for the listener.
func service(h *module.Host, ln net.Listener, conf *tls.Config) (listen.Service, error) {
	srv, err := New(Config{
		Access: h.Access, Open: h.Bus.Open, Admit: h.Gate.Admit, Hello: h.Hellos.Allow, PublishLimit: h.Publishes.Take, Version: bus.Version, Refused: bus.Refused, MaxPayload: bus.MaxPayload, TLS: conf, Log: h.Log,
	})
	if err != nil {
		return listen.Service{}, err
	}
	if err := h.Metrics(srv); err != nil {
		return listen.Service{}, err
	}
	accepted := make(chan struct{}) // closed when no more are
	return listen.Service{
		Name: "NATS clients",
		Run: func(context.Context) error {
			defer close(accepted)
			return srv.Serve(context.Background(), ln)
		},
		Shutdown: func(context.Context) error { <-accepted; return srv.Close() },
	}, nil
}
