package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/gateway/grpcgate"
)

// serveGRPC serves the gRPC listener and returns how to end accepting.
func (a *App) serveGRPC(ln net.Listener) (stop func(), err error) {
	srv, err := grpcgate.New(grpcgate.Config{
		Hub: a.hub, Publisher: a.publisher, Keys: a.access, Engine: a.cfg.GRPCEngine, Log: a.log,
		PublishLimit: a.keyLimit.Take,
	})
	if err != nil {
		return nil, fmt.Errorf("start gRPC: %w", err)
	}
	a.registerCompat(srv)
	var conf *tls.Config
	if a.tlsFor != nil {
		conf = a.tlsFor("h2")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		lim := reactor.Limits{Handshake: admission.Patience, Admit: a.gate.Admit, NoFiles: a.gate.NoFiles}
		err := srv.Serve(ctx, a.reactor, ln, conf, lim)
		if ctx.Err() == nil {
			if err == nil {
				err = errors.New("ended unexpectedly")
			}
			a.fail(fmt.Errorf("serve grpc_addr: %w", err))
		}
	}()
	a.steps.addPolite("gRPC answers", a.share(), func(ctx context.Context) error {
		cancel()
		err := srv.Shutdown(ctx)
		<-done
		return err
	})
	return cancel, nil
}
