package app

import (
	"context"
	"fmt"
	"net"

	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/messaging/bus"
)

// serveNATS serves the NATS listener and returns how to end accepting.
func (a *App) serveNATS(ln net.Listener) (stop func(), err error) {
	cfg := natsgate.Config{
		Access: a.access, Open: a.bus.Open, Admit: a.gate.Admit, Hello: a.helloLimit.Allow, PublishLimit: a.keyLimit.Take, Version: bus.Version, Refused: bus.Refused, MaxPayload: bus.MaxPayload, Log: a.log,
	}
	if a.tlsFor != nil {
		cfg.TLS = a.tlsFor()
	}
	srv, err := natsgate.New(cfg)
	if err != nil {
		return nil, err
	}
	a.registry.MustRegister(srv)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(context.Background(), ln); !a.stopping.Load() {
			a.fail(fmt.Errorf("serve nats_addr: %w", err))
		}
	}()
	a.steps.addClose("NATS clients", a.share(), func() error {
		_ = ln.Close() // again, where the start failed before accepting was ended
		<-done
		return srv.Close()
	})
	return func() { _ = ln.Close() }, nil
}
