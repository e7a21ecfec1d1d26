package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/gateway/workergate"
	"godwit.dev/godwit/internal/server/app/compat"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/web"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

// listen opens all listeners and serves them. It registers the visible steps of a stop, which run in reverse: accepting ends, readiness
// ends, workers answer the requests that they have, sessions get their goodbye, answers under way end, connections drain.
func (a *App) listen(ctx context.Context, w *web.Web, other *compat.Service) error {
	list := listen.New(a.steps, a.fail, w.Share(), w.TLS)
	a.modules = module.NewSet(services(w, a.opts.Commands), a.steps, a.registry, list)
	w.Modules = a.modules
	w.QUIC = func() string { return list.Addrs()["quic_addr"] }
	var all []listen.Listener
	if other != nil {
		w.Ready = other.Ready
		all = append(all, other.Listener(w.Ground))
	}
	all = append(all, w.Listeners()...)
	for _, l := range append(all, grpcListener(w, other)) {
		if err := list.Add(l); err != nil {
			return err
		}
	}
	if err := w.Modules.Start(ctx, a.opts.Modules); err != nil {
		return err
	}
	if a.opts.Embedded {
		var err error
		if a.handler, err = w.Handler(); err != nil {
			return err
		}
	}
	if err := list.Open(ctx); err != nil {
		return err
	}
	a.byKey = list.Addrs()
	a.addrs = addresses(a.byKey)
	a.steps.AddPolite("connections", w.Share(), w.Conns.Reactor.Drain)
	if err := list.Serve(); err != nil {
		return err
	}
	a.steps.AddPolite("session goodbyes", w.Share(), func(ctx context.Context) error {
		return eachHub(w.Core, other, func(h hub) error { return h.Shutdown(ctx) })
	})
	a.steps.AddPolite("requests with workers", w.Share(), w.Core.Requests.Retire)
	a.steps.AddClose("readiness", time.Second, func() error { a.notReady(); return nil })
	a.steps.AddClose("accepting", time.Second, list.Stop)
	return nil
}

// addresses returns the listening addresses.
func addresses(byKey map[string]string) (at datadir.Addresses) {
	named := map[string]*string{"http_addr": &at.HTTP, "grpc_addr": &at.GRPC, "mqtt_addr": &at.MQTT, "nats_addr": &at.NATS, "quic_addr": &at.QUIC, "gateway_addr": &at.Gateway, "compat_http_addr": &at.CompatHTTP}
	for key, addr := range byKey {
		if into := named[key]; into != nil {
			*into = addr
			continue
		}
		if at.Others == nil {
			at.Others = make(map[string]string)
		}
		at.Others[key] = addr
	}
	return at
}

// grpcListener returns the listener for gRPC, which clients of a replaced service use too.
func grpcListener(w *web.Web, other *compat.Service) listen.Listener {
	return listen.Listener{
		Key: "grpc_addr", Owner: "grpc", Addr: w.Settings.ListenAddr(w.Settings.GRPCAddr), Protocols: []string{"h2"},
		Serve: func(ln net.Listener, conf *tls.Config) (listen.Service, error) {
			srv, err := grpcgate.New(grpcgate.Config{
				Hub: w.Core.Hub, Publisher: w.Core.Publisher, Keys: w.Access, Engine: w.Settings.GRPCEngine, Log: w.Log,
				BackEnd: grpcgate.BackEnd{
					Mailbox: w.Core.Mailbox, Steps: w.EscalationSteps(), Objects: w.Core.Objects, Topics: w.Core.Topics, Requests: w.Core.Requests,
					PublishLimit: w.Conns.Publish.Take, Audit: w.Audit, Refusals: w.Watched(),
				},
			})
			if err != nil {
				return listen.Service{}, fmt.Errorf("start gRPC: %w", err)
			}
			srv.RegisterService(&godwitpb.Gateway_ServiceDesc, w.Workers().RPC(workergate.RPCWays{Peer: grpcgate.Peer, Fail: grpcgate.StatusError}))
			if other != nil {
				other.Register(srv)
			}
			return listen.Service{
				Name:     "gRPC answers",
				Run:      func(ctx context.Context) error { return srv.Serve(ctx, w.Conns.Reactor, ln, conf, w.Conns.Limits()) },
				Shutdown: srv.Shutdown,
			}, nil
		},
	}
}
