package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http1"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/problem"
)

// protocols are the HTTP versions within TLS.
var protocols = []string{"h2", "http/1.1"}

// Listeners returns the HTTP listener and the listener of the gateway alone.
func (w *Web) Listeners() []listen.Listener {
	return []listen.Listener{
		{Key: "http_addr", Owner: "http", Addr: w.Settings.ListenAddr(w.Settings.HTTPAddr), Protocols: protocols, Serve: func(ln net.Listener, conf *tls.Config) (listen.Service, error) {
			h, err := w.Handler()
			if err != nil {
				return listen.Service{}, err
			}
			return w.serveHTTP(ln, conf, h), nil
		}},
		{Key: "gateway_addr", Owner: "gateway", Addr: w.Settings.ListenAddr(w.Settings.GatewayAddr), Protocols: protocols, Serve: func(ln net.Listener, conf *tls.Config) (listen.Service, error) {
			h, err := w.Handler()
			if err != nil {
				return listen.Service{}, err
			}
			return w.serveGateway(ln, conf, h), nil
		}},
	}
}

// server makes the server of a listener, and returns the listener from which it accepts connections.
func (w *Web) server(ln net.Listener, conf *tls.Config, handler http.Handler) (*http.Server, net.Listener) {
	srv := &http.Server{
		Handler: lingering(handler, lingerFor), Protocols: new(http.Protocols), TLSConfig: conf,
		ErrorLog: slog.NewLogLogger(w.Log.Handler(), slog.LevelDebug), // errors of single connections: a hostile client must not fill the log
	}
	httpapi.Limit(srv)
	w.Conns.Gate.Guard(srv)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	adoptable := reactor.Listener(w.Conns.Gate.Listen(ln))
	if conf != nil {
		adoptable = tls.NewListener(adoptable, conf)
	}
	return srv, adoptable
}

// framed closes connections after requests whose end a proxy in front may locate differently (request smuggling).
func framed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch http1.JudgeOf(r) {
		case http1.Refuse:
			w.Header().Set("Connection", "close")
			gateway.Fail(w, problem.BadInput.With("the request leaves open where its body ends: send one Content-Length, or Transfer-Encoding: chunked over HTTP/1.1, and no folded header lines"))
			return
		case http1.Last:
			w.Header().Set("Connection", "close")
			r.Close = true // no other request is read from the connection
		}
		next.ServeHTTP(w, r)
	})
}

// altSvcAge is how long clients may remember that HTTP/3 is served, in seconds: a day.
const altSvcAge = 86400

// advertised tells clients on which port HTTP/3 is served, as Alt-Svc has it (RFC 7838). Empty: it is not.
func advertised(next http.Handler, quicAddr string) http.Handler {
	_, port, err := net.SplitHostPort(quicAddr)
	if err != nil {
		return next
	}
	says := []string{fmt.Sprintf(`h3=":%s"; ma=%d`, port, altSvcAge)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Alt-Svc"] = says
		next.ServeHTTP(w, r)
	})
}

// serveHTTP serves the HTTP listener.
func (w *Web) serveHTTP(ln net.Listener, conf *tls.Config, handler http.Handler) listen.Service {
	if conf != nil {
		handler = advertised(handler, w.QUIC())
	}
	srv, adoptable := w.server(ln, conf, handler)
	guarded := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return reactor.ConnContext(direct.ConnContext(guarded(ctx, nc), nc), nc)
	}
	return listen.Service{
		Name: "HTTP answers",
		Run: func(context.Context) error {
			var back sync.WaitGroup
			back.Go(func() { _ = srv.Serve(w.direct.Listener()) }) // ends with the server
			defer back.Wait()
			return srv.Serve(adoptable)
		},
		Shutdown: func(ctx context.Context) error {
			var publishers error
			var answered sync.WaitGroup
			answered.Go(func() { publishers = w.direct.Shutdown(ctx) })
			err := listen.Shutdown(ctx, srv)
			answered.Wait()
			return errors.Join(err, publishers)
		},
	}
}

// serveGateway serves the gateway's own listener.
func (w *Web) serveGateway(ln net.Listener, conf *tls.Config, handler http.Handler) listen.Service {
	srv, accepts := w.server(ln, conf, handler)
	guarded := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return context.WithValue(guarded(ctx, nc), onGatewayListener{}, true)
	}
	return listen.Service{
		Name:     "gateway answers",
		Run:      func(context.Context) error { return srv.Serve(accepts) },
		Shutdown: func(ctx context.Context) error { return listen.Shutdown(ctx, srv) },
	}
}
