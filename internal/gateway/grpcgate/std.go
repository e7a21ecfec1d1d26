package grpcgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // decompresses requests, as the other engine does
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/notify/frame"
)

// stdEngine runs the services on grpc-go's server, with three goroutines for a session.
type stdEngine struct {
	*grpc.Server
	cfg     *Config
	creds   *lateTLS
	readers sync.WaitGroup
	waiting atomic.Int64 // bytes in the queues of sessions
	silent  sync.Map     // of guarded
}

// Keep-alive settings of grpc-go's server. They replace the probes of single sessions, which grpc-go cannot send.
const (
	stdPingAfter   = 30 * time.Second
	stdPingTimeout = 20 * time.Second
	stdMinPing     = 5 * time.Second // apps ping as often as every 15 s
	stdMaxStreams  = 1000
	stdIdle        = 2 * time.Minute // limit for connections without a call; the same as in the other engine
	stdHeaders     = 64 << 10        // grpc-go resets calls with more bytes of headers; calls between this and maxMetadata get an error
)

func newStdEngine(cfg *Config) *stdEngine {
	e := &stdEngine{cfg: cfg, creds: &lateTLS{TransportCredentials: insecure.NewCredentials()}}
	e.Server = grpc.NewServer(
		grpc.Creds(e.creds),
		grpc.StatsHandler(firstRequests{&e.silent}),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(cfg.MaxMessage),
		grpc.MaxHeaderListSize(stdHeaders),
		grpc.InTapHandle(checkMetadata),
		grpc.MaxConcurrentStreams(stdMaxStreams),
		grpc.ConnectionTimeout(reactor.DefaultHandshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: stdPingAfter, Timeout: stdPingTimeout, MaxConnectionIdle: stdIdle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: stdMinPing, PermitWithoutStream: true}),
	)
	return e
}

// checkMetadata refuses calls with too much metadata.
func checkMetadata(ctx context.Context, info *tap.Info) (context.Context, error) {
	size := 0
	for name, values := range info.Header {
		for _, v := range values {
			size += len(name) + len(v) + fieldOverhead
		}
	}
	if size > maxMetadata {
		return nil, errMetadata.Err()
	}
	return ctx, nil
}

// fieldOverhead is the number of bytes that HTTP/2 counts for a field in addition to its name and value (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// registerClients adds godwit.v1.Client.
func (e *stdEngine) registerClients() {
	godwitpb.RegisterClientServer(e.Server, &stdClients{engine: e, m: &SessionMethod{Hub: e.cfg.Hub, Format: frame.Proto, Name: "grpc"}})
}

// registerSessions adds a service that has streams which are sessions.
func (e *stdEngine) registerSessions(desc *grpc.ServiceDesc, srv any, sessions map[string]*SessionMethod) {
	changed := *desc
	changed.Streams = slices.Clone(desc.Streams)
	for i := range changed.Streams {
		if m := sessions[changed.Streams[i].StreamName]; m != nil {
			changed.Streams[i].Handler = func(_ any, stream grpc.ServerStream) error { return e.session(stream, m) }
		}
	}
	e.RegisterService(&changed, srv)
}

func (e *stdEngine) serve(ctx context.Context, _ *reactor.Reactor, ln net.Listener, tlsConf *tls.Config, lim reactor.Limits) error {
	if tlsConf != nil {
		e.creds.TransportCredentials = credentials.NewTLS(tlsConf)
	}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // a listener that fails to close leaves nothing to do
	defer stop()
	err := e.Serve(&guarded{Listener: ln, lim: lim, silent: &e.silent})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (e *stdEngine) shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.GracefulStop()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("drain gRPC connections: %w", context.Cause(ctx))
		e.Stop()
		<-done
	}
	e.readers.Wait()
	return err
}

func (e *stdEngine) queued() int64 { return e.waiting.Load() }

// lateTLS is a server's credentials, which are set only when the server begins to serve.
type lateTLS struct {
	credentials.TransportCredentials
}

// Clone returns the same object: the credentials are set once, before the first connection.
func (l *lateTLS) Clone() credentials.TransportCredentials { return l }

// guarded closes connections beyond the limits at once instead of letting them wait.
type guarded struct {
	net.Listener
	lim    reactor.Limits
	silent *sync.Map // connections whose transport has not begun, by remote address and port
}

// Accept returns the next connection that is allowed.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave := func() {}
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok && g.lim.Admit != nil {
			count, ok := g.lim.Admit(a.AddrPort().Addr().Unmap())
			if !ok {
				_ = c.Close()
				continue
			}
			if count != nil {
				leave = count
			}
		}
		patience := g.lim.Handshake
		if patience == 0 {
			patience = reactor.DefaultHandshake
		}
		name := c.RemoteAddr().String()
		guest := &counted{Conn: c, leave: func() {
			g.silent.Delete(name)
			leave()
		}}
		guest.due = time.AfterFunc(patience, func() { _ = c.Close() }) // grpc-go closes it once more
		g.silent.Store(name, guest)
		return guest, nil
	}
}

// counted gives up its place in the connection limit when it is closed.
type counted struct {
	net.Conn
	due   *time.Timer // closes the connection unless it speaks HTTP/2 in time
	once  sync.Once
	leave func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.due.Stop()
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// firstRequests stops the deadline of connections that speak HTTP/2: from then on grpc-go closes idle ones.
type firstRequests struct{ silent *sync.Map }

// TagConn implements stats.Handler.
func (f firstRequests) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	if c, ok := f.silent.LoadAndDelete(info.RemoteAddr.String()); ok {
		c.(*counted).due.Stop() // there are no others
	}
	return ctx
}

// TagRPC implements stats.Handler.
func (firstRequests) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (firstRequests) HandleRPC(context.Context, stats.RPCStats) {}

// HandleConn implements stats.Handler.
func (firstRequests) HandleConn(context.Context, stats.ConnStats) {}
