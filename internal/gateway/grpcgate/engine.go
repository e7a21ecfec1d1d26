package grpcgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http2"
)

// reactorEngine runs services on the reactor's HTTP/2: each running call has a goroutine, a session has none. Some goroutines wait for the
// next call, because a new one would have to grow its stack first: that took a tenth of the CPU time of a publish.
type reactorEngine struct {
	cfg     *Config
	http    *http2.Server
	methods map[string]*method // by path
	info    map[string]grpc.ServiceInfo
	own     pool // calls of services that require credentials
	public  pool // calls of health and reflection, which do not
	calls   sync.WaitGroup
	next    chan *call   // to the goroutines that wait for a call
	waiting atomic.Int64 // how many wait

	ctx  context.Context // ends the calls, which belong to the engine
	stop context.CancelCauseFunc
}

// mostWaiting is how many goroutines wait for a call. With their stacks they hold about 1 MB.
const mostWaiting = 64

// method is one registered method; exactly one of unary, stream or open is set.
type method struct {
	path   string
	srv    any
	unary  grpc.MethodHandler
	stream *grpc.StreamDesc
	open   opener
	pool   *pool
}

// opener opens a stream that is a session, which has no goroutine.
type opener func(s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler

// pool limits how many calls run at a time.
type pool struct {
	running atomic.Int64
	most    int64
}

func (p *pool) enter() bool {
	if p.running.Add(1) > p.most {
		p.running.Add(-1)
		return false
	}
	return true
}

func (p *pool) leave() { p.running.Add(-1) }

func newEngine(cfg *Config) *reactorEngine {
	e := &reactorEngine{cfg: cfg, methods: map[string]*method{}, info: map[string]grpc.ServiceInfo{}, next: make(chan *call)}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	e.own.most, e.public.most = int64(cfg.MaxCalls), max(int64(cfg.MaxCalls)/publicShare, 1)
	e.http = http2.NewServer(cfg.HTTP2, e)
	return e
}

// run runs a call on a goroutine that waits, or on a new one.
func (e *reactorEngine) run(c *call) {
	select {
	case e.next <- c:
	default:
		e.calls.Go(func() {
			for ; c != nil; c = e.wait() {
				c.serve()
			}
		})
	}
}

// wait returns the next call; nil: the goroutine is not needed.
func (e *reactorEngine) wait() (c *call) {
	if e.waiting.Add(1) <= mostWaiting {
		select {
		case c = <-e.next:
		case <-e.ctx.Done():
		}
	}
	e.waiting.Add(-1)
	return c
}

// RegisterService adds a service. All services must be added before serve is called.
func (e *reactorEngine) RegisterService(desc *grpc.ServiceDesc, srv any) {
	info := grpc.ServiceInfo{Metadata: desc.Metadata}
	calls := &e.own
	if strings.HasPrefix(desc.ServiceName, "grpc.health.") || strings.HasPrefix(desc.ServiceName, "grpc.reflection.") {
		calls = &e.public
	}
	for i := range desc.Methods {
		m := &desc.Methods[i]
		path := "/" + desc.ServiceName + "/" + m.MethodName
		e.methods[path] = &method{path: path, srv: srv, unary: m.Handler, pool: calls}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
	}
	for i := range desc.Streams {
		m := &desc.Streams[i]
		path := "/" + desc.ServiceName + "/" + m.StreamName
		e.methods[path] = &method{path: path, srv: srv, stream: m, pool: calls}
		info.Methods = append(info.Methods, grpc.MethodInfo{
			Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams,
		})
	}
	e.info[desc.ServiceName] = info
}

// registerClients adds godwit.v1.Client.
func (e *reactorEngine) registerClients() {
	godwitpb.RegisterClientServer(e, godwitpb.UnimplementedClientServer{}) // for reflection
	e.methods[godwitpb.Client_Connect_FullMethodName].open = func(s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
		return openClient(e.cfg, s, h, gzip)
	}
}

// registerSessions adds a service with streams that are sessions.
func (e *reactorEngine) registerSessions(desc *grpc.ServiceDesc, srv any, sessions map[string]*SessionMethod) {
	e.RegisterService(desc, srv)
	for name, m := range sessions {
		e.methods["/"+desc.ServiceName+"/"+name].open = func(s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
			return openGuest(m, s, h, gzip)
		}
	}
}

// GetServiceInfo serves reflection.
func (e *reactorEngine) GetServiceInfo() map[string]grpc.ServiceInfo { return e.info }

func (e *reactorEngine) serve(ctx context.Context, r *reactor.Reactor, ln net.Listener, tlsConf *tls.Config, lim reactor.Limits) error {
	if tlsConf != nil {
		tlsConf = tlsConf.Clone()
		tlsConf.NextProtos = []string{"h2"}
	}
	return r.Serve(ctx, ln, tlsConf, lim, func(c *reactor.Conn) (reactor.Handler, error) {
		return e.http.NewConn(c), nil
	})
}

func (e *reactorEngine) shutdown(ctx context.Context) error {
	err := e.http.Shutdown(ctx)
	e.stop(errStopping)
	e.calls.Wait()
	if err != nil {
		return fmt.Errorf("drain gRPC connections: %w", err)
	}
	return nil
}

func (e *reactorEngine) queued() int64 { return e.http.Queued() }

var errStopping = status.Error(codes.Unavailable, "the server is stopping")

// Open takes a request.
func (e *reactorEngine) Open(s *http2.Stream, h *http2.Headers) http2.StreamHandler {
	if kind := h.Get("content-type"); h.Method != http.MethodPost || !isGRPC(kind) {
		return &stranger{s: s}
	}
	m := e.methods[h.Path]
	if m == nil {
		reply(s, unknownMethod(h.Path, e.info))
		return nil
	}
	gzip := false
	switch h.Get("grpc-encoding") {
	case "", "identity":
	case "gzip":
		gzip = true
	default:
		reply(s, status.Newf(codes.Unimplemented, "compression %q is not known here", h.Get("grpc-encoding")),
			hpack.HeaderField{Name: "grpc-accept-encoding", Value: "identity,gzip"})
		return nil
	}
	if m.open != nil {
		return m.open(s, h, gzip)
	}
	return e.openCall(s, h, m, gzip)
}

// maxMetadata is the size limit for a client's metadata, in bytes as HTTP/2 counts: name, value and 32 bytes for each field.
const maxMetadata = 8 << 10

var errMetadata = status.Newf(codes.ResourceExhausted, "the call's metadata has more than %d bytes, which is the most", maxMetadata)

// RefuseLong answers a call with too much metadata.
func (e *reactorEngine) RefuseLong(s *http2.Stream, contentType string) {
	if isGRPC(contentType) {
		reply(s, errMetadata)
		return
	}
	s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "431"})
	s.End()
}

func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest == "+proto" || rest[0] == ';')
}

func unknownMethod(path string, known map[string]grpc.ServiceInfo) *status.Status {
	service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if _, ok := known[service]; ok {
		return status.Newf(codes.Unimplemented, "service %s has no such method: %s", service, path)
	}
	return status.Newf(codes.Unimplemented, "unknown service %s", service)
}

// stranger answers requests that are not gRPC, once the requests are complete.
type stranger struct {
	s    *http2.Stream
	body int
}

const strangerAnswer = "This port serves gRPC.\n"

// maxStrangerBody is the most bytes of such a body that are read before the answer; a longer body resets the stream.
const maxStrangerBody = 64 << 10

func (x *stranger) Data(b []byte) {
	if x.body += len(b); x.body > maxStrangerBody {
		x.s.Reset(http2.Cancel, "not gRPC")
	}
}

func (x *stranger) HalfClosed() {
	x.s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "415"}, hpack.HeaderField{Name: "content-type", Value: "text/plain"})
	x.s.Write(nil, []byte(strangerAnswer))
	x.s.End()
}

func (x *stranger) Resumed()     {}
func (x *stranger) Drained()     {}
func (x *stranger) Alive()       {}
func (x *stranger) Closed(error) {}
