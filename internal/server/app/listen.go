package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http1"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/gateway/ssegate"
	"godwit.dev/godwit/internal/gateway/wsgate"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/httpapi/public"
	"godwit.dev/godwit/internal/server/problem"
)

// startConnections starts what serves connections, before anything listens.
func (a *App) startConnections(context.Context) error {
	driver := a.cfg.ReactorDriver
	if driver == "auto" {
		driver = ""
	}
	var err error
	a.reactor, err = reactor.New(reactor.Config{
		Loops: a.cfg.ReactorLoops, Driver: driver, QueueBytes: int(a.cfg.QueueBytes), TotalBytes: int64(a.cfg.QueueTotal),
	}, a.log)
	if err != nil {
		return err
	}
	a.steps.addClose("reactor", time.Second, a.reactor.Close)
	a.addrLimit = limit.NewAddrs(a.cfg.LimitConnects.PerSecond(), a.cfg.LimitLoopback)
	a.gate = a.newGate()
	a.ackLimit = limit.NewAddrs(a.cfg.LimitHellos.PerSecond(), a.cfg.LimitLoopback)
	a.signups = limit.NewAddrs(a.cfg.LimitSignups.PerSecond(), a.cfg.LimitLoopback)
	a.keyLimit = limit.NewKeys(a.cfg.LimitPublish.PerSecond())
	a.registerFigures()
	return nil
}

// readTLS reads the certificates before anything is made or opened, so that a missing file leaves nothing behind.
func (a *App) readTLS(context.Context) error {
	if a.cfg.TLSCert != "" {
		c, err := certs.Load(a.cfg.TLSCert, a.cfg.TLSKey, a.cfg.TLSClientCA, a.log)
		if err != nil {
			return err
		}
		a.tlsFor = c.Server
		a.showExpiry("clients", c)
	}
	if a.cfg.ClusterTLSCert != "" {
		c, err := certs.LoadMutual(a.cfg.ClusterTLSCert, a.cfg.ClusterTLSKey, a.cfg.ClusterTLSCA, a.log)
		if err != nil {
			return err
		}
		a.nodeTLS = c.Mutual()
		a.showExpiry("cluster", c)
	}
	return nil
}

// addrShare is the part of all connections that one address may have open unless a setting says otherwise: what a stranger
// can take, others must not miss.
const addrShare = 4

// newGate makes the gate of all listeners.
func (a *App) newGate() *admission.Gate {
	most, mostOf := a.cfg.MaxConnections, a.cfg.MaxPerAddress
	possible := connectionLimit(fileLimit())
	if most > possible {
		a.log.Warn("max_connections is more than the file limit allows: raise that too (ulimit -n, LimitNOFILE of systemd)",
			"max_connections", most, "allowed", possible)
	}
	if most == 0 || most > possible {
		most = possible
	}
	if mostOf == 0 && a.cfg.CompatOn() { // its clients may all come from the address of a proxy
		mostOf = most
	}
	if mostOf == 0 {
		mostOf = max(most/addrShare, 1)
	}
	return admission.New(admission.Config{
		Limit: a.addrLimit, Conns: limit.NewConns(most, mostOf, a.cfg.LimitLoopback), Opening: a.pace.Opening,
	})
}

// listen opens all listeners before any of them is served, so that an address in use leaves nothing half started,
// and serves them. Its stop steps are the visible part of a stop, in reverse: accepting ends, readiness ends,
// sessions get their goodbye, answers under way end, connections drain.
func (a *App) listen(ctx context.Context) error {
	httpLn, err := a.open(ctx, "http_addr", a.cfg.HTTPAddr, &a.addrs.HTTP)
	if err != nil {
		return err
	}
	grpcLn, err := a.open(ctx, "grpc_addr", a.cfg.GRPCAddr, &a.addrs.GRPC)
	if err != nil {
		return err
	}
	natsLn, err := a.open(ctx, "nats_addr", a.cfg.NATSAddr, &a.addrs.NATS)
	if err != nil {
		return err
	}
	gatewayLn, err := a.open(ctx, "gateway_addr", a.cfg.GatewayAddr, &a.addrs.Gateway)
	if err != nil {
		return err
	}
	var compatLn net.Listener
	if a.compat != nil {
		if compatLn, err = a.open(ctx, "compat_http_addr", a.cfg.CompatHTTPAddr, &a.addrs.CompatHTTP); err != nil {
			return err
		}
	}
	a.steps.addPolite("connections", a.share(), a.reactor.Drain)
	var stopHTTP, stopGRPC, stopNATS, stopGateway, stopCompat func()
	if compatLn != nil {
		stopCompat = a.serveCompat(compatLn)
	}
	if httpLn != nil || gatewayLn != nil {
		if httpLn != nil {
			a.direct = direct.New(a.reactor, a.log)
		}
		handler, err := a.handler()
		if err != nil {
			return err
		}
		if httpLn != nil {
			stopHTTP = a.serveHTTP(httpLn, handler)
		}
		if gatewayLn != nil {
			stopGateway = a.serveGateway(gatewayLn, handler)
		}
	}
	if grpcLn != nil {
		if stopGRPC, err = a.serveGRPC(grpcLn); err != nil {
			return err
		}
	}
	if natsLn != nil {
		if stopNATS, err = a.serveNATS(natsLn); err != nil {
			return err
		}
	}
	a.steps.addPolite("session goodbyes", a.share(), a.goodbyes)
	a.steps.addClose("readiness", time.Second, func() error { a.notReady(); return nil })
	a.steps.addClose("accepting", time.Second, func() error {
		for _, stop := range []func(){stopHTTP, stopGateway, stopGRPC, stopNATS, stopCompat} {
			if stop != nil {
				stop()
			}
		}
		return nil
	})
	return nil
}

// open opens one listener; nil: it is off.
func (a *App) open(ctx context.Context, key, setting string, into *string) (net.Listener, error) {
	addr := a.cfg.ListenAddr(setting)
	if addr == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	a.steps.addClose(key, time.Second, func() error {
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	*into = ln.Addr().String()
	return ln, nil
}

// server makes the server of a listener, and what it accepts connections from.
func (a *App) server(ln net.Listener, handler http.Handler) (*http.Server, net.Listener) {
	srv := &http.Server{
		Handler: framed(handler), Protocols: new(http.Protocols),
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), // of single connections: a hostile client must not fill the log,
	}
	httpapi.Limit(srv)
	a.gate.Guard(srv)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	adoptable := reactor.Listener(a.gate.Listen(ln))
	if a.tlsFor != nil {
		srv.TLSConfig = a.tlsFor("h2", "http/1.1")
		adoptable = tls.NewListener(adoptable, srv.TLSConfig)
	}
	return srv, adoptable
}

// framed closes connections after requests of which a proxy in front may believe that they end elsewhere.
func framed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch http1.JudgeOf(r) {
		case http1.Refuse:
			w.Header().Set("Connection", "close")
			gateway.Fail(w, problem.BadInput.With("the request leaves open where its body ends: send one Content-Length, or Transfer-Encoding: chunked over HTTP/1.1, and no folded header lines"))
			return
		case http1.Last:
			w.Header().Set("Connection", "close")
			r.Close = true // nothing takes the connection over to serve more of it
		}
		next.ServeHTTP(w, r)
	})
}

// serveHTTP serves the HTTP listener and returns how to end accepting.
func (a *App) serveHTTP(ln net.Listener, handler http.Handler) (stop func()) {
	srv, adoptable := a.server(ln, handler)
	guarded := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return reactor.ConnContext(direct.ConnContext(guarded(ctx, nc), nc), nc)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var back sync.WaitGroup
		back.Go(func() { _ = srv.Serve(a.direct.Listener()) }) // ends with the server
		if err := srv.Serve(adoptable); !a.stopping.Load() {
			a.fail(fmt.Errorf("serve http_addr: %w", err))
		}
		back.Wait()
	}()
	a.steps.addPolite("HTTP answers", a.share(), func(ctx context.Context) error {
		var publishers error
		var answered sync.WaitGroup
		answered.Go(func() { publishers = a.direct.Shutdown(ctx) })
		err := srv.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, srv.Close()) // what is still open had its time
		}
		answered.Wait()
		<-done
		return errors.Join(err, publishers)
	})
	return func() { ln.Close() }
}

// escalationSteps says how escalations stand; nil: there are none.
func (a *App) escalationSteps() timeline.Steps {
	if a.escalations == nil {
		return nil
	}
	return a.escalations
}

// provider lets people in beside keys; nil: none does.
func (a *App) provider() *provider.Provider {
	if a.cfg.OIDCIssuer == "" {
		return nil
	}
	rules, _ := signin.ParseRules(a.cfg.OIDCAllow) // was checked with the settings
	p := provider.New(provider.Config{
		Issuer: a.cfg.OIDCIssuer, ClientID: a.cfg.OIDCClientID, Secret: a.cfg.OIDCClientSecret, Scopes: strings.Fields(a.cfg.OIDCScopes), Rules: rules,
		Redirect: strings.TrimRight(a.cfg.PublicURL, "/") + "/ui/oidc/callback", Now: a.clock,
	})
	a.steps.addClose("provider of sign-ins", time.Second, p.Close)
	return p
}

// timelines makes the service that tells the stories of copies; known has the recipients that they are for.
func (a *App) timelines(known *recipient.Service) *timeline.Service {
	cfg := timeline.Config{Mailbox: a.mailbox, Steps: a.escalationSteps(), Recipients: known, Now: time.Now, Watchers: a.watchers}
	if a.cfg.Attempts {
		cfg.Started = a.clock()
	}
	return timeline.New(cfg)
}

// pages is the web page.
func (a *App) pages(known *recipient.Service, told *timeline.Service) (http.Handler, error) {
	return admin.New(admin.Config{
		Access: a.access, Keys: a.access, Stays: signin.NewStays(a.stores.People, a.clock), Audit: a.deeds, Provider: a.provider(), Campaigns: a.sending, Audience: a.endpoints, Templates: a.templates, Recipients: known, Mailbox: a.mailbox, Timelines: told, Publisher: a.publisher, PublishLimit: a.keyLimit.Take, Log: a.log, Version: a.opts.Version,
		Objects: a.objects, Presence: a.sessions(), Channels: a.channels, Hooks: a.hooks, Sinks: a.sinks, Sources: a.sources,
		Watch: a.watched(), Draining: a.draining,
		Dev: a.cfg.Dev, TLS: a.tlsFor != nil, Origin: access.OwnOrigin(a.cfg.PublicURL), Admit: a.addrLimit.Allow,
		Ready: func(ctx context.Context, app string, ch push.Channel) bool {
			_, err := a.channels.Sender(ctx, app, ch)
			return err == nil
		},
	})
}

// handler is everything on the HTTP listener.
func (a *App) handler() (http.Handler, error) {
	posting := gateway.NewPostingClients(a.access)
	posting.ForwardTo(a.forwarder())
	poll := pollgate.New(pollgate.Config{Hub: a.hub, Posting: posting, Origins: a.access, Log: a.log})
	a.steps.addClose("polls", time.Second, poll.Close)
	known := recipient.New(recipient.Config{Mailbox: a.mailbox, Presence: a.sessions(), Endpoints: a.endpoints, Objects: a.objects, Traces: a.eraser, Log: a.log})
	a.steps.addRun("erasures of apps", storePatience, recipient.NewApps(recipient.AppsConfig{
		Erasing: a.access.Erasing, Erased: a.access.AppErased, Mailbox: a.mailbox, Objects: a.objects, Rest: a.stores.EraseApp,
		Files: a.eraser.Deleted, Own: a.own("erasures"), Log: a.log,
	}).Run, a.fail)
	told := a.timelines(known)
	pages, err := a.pages(known, told)
	if err != nil {
		return nil, err
	}
	mount := map[string]http.Handler{
		"/v1/connect": wsgate.New(wsgate.Config{Hub: a.hub, Origins: a.access, Reactor: a.reactor, Log: a.log}),
		"/v1/frames":  posting,
		"/v1/poll":    poll,
		"/{$}":        pages,
		"/ui/":        pages,
		"/v1/stream":  ssegate.New(ssegate.Config{Hub: a.hub, Posting: posting, Origins: a.access, Reactor: a.reactor, Log: a.log}),
	}
	a.serveForwarded(map[string]http.Handler{"/v1/frames": posting, "/v1/poll": poll})
	origin := newGatewayOrigin(a.cfg)
	var receipts public.Receipts
	if a.escalations != nil {
		receipts = a.escalations
	}
	api := httpapi.New(httpapi.Config{
		Timelines: told, Receipts: receipts, AckLimit: a.ackLimit,
		Publisher: a.publisher, Mailbox: a.mailbox, Objects: a.objects, Topics: a.topics, Requests: a.requests, Services: a.access, Presence: a.sessions(), Events: a.stores.Events, Access: a.access, Audit: a.deeds, Keys: a.access, Apps: a.access, Channels: a.channels, Hooks: a.hooks, Sources: a.sources, Sinks: a.sinks, Campaigns: a.sending, Templates: a.templates,
		Log: a.log, Registry: a.registry, PublishLimit: a.keyLimit.Take,
		Endpoints: a.endpoints, Traces: a.eraser, Signups: a.signups, Preferences: a.stores.Preferences, Categories: a.access,
		Direct:  a.direct,
		Gateway: a.frontGate(origin), Serves: origin.parts,
		Watch:   a.watched(),
		Figures: a.figures, Mount: mount, Draining: a.draining, Ready: a.compatReady(), Version: a.opts.Version, Node: a.node(), Cluster: a.view, Forget: a.forgetNode,
	})
	if a.cfg.Dev && !a.cfg.DevAnyAddress && a.tlsFor == nil { // a certificate says which names are meant
		return localHosts(api, origin, a.cfg.PublicURL), nil
	}
	return api, nil
}
