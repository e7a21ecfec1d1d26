package grpcgate

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/internal/engine/reactor/http2"
)

// call is one running method other than Connect. Its handler has a goroutine, which starts for a unary method only when the request is
// complete. call implements grpc.ServerStream.
type call struct {
	e      *reactorEngine
	s      *http2.Stream
	m      *method
	ctx    context.Context // grpc.ServerStream hands it out
	cancel context.CancelCauseFunc
	stop   func() // frees the deadline's timer
	gzip   bool

	in    deframer // of the loop alone
	ended bool     // receiving side; used only by the loop

	mu      sync.Mutex
	queue   [][]byte // messages to be received
	queued  int      // bytes in it
	eof     bool     // no more will come
	failed  error    // why no more messages will arrive, if the client did not end its side
	paused  bool
	header  metadata.MD
	trailer metadata.MD
	headed  bool // headers were sent

	arrived chan struct{} // a message, or the end
	drained chan struct{} // has a token after Drained
}

var (
	_ grpc.ServerStream          = (*call)(nil)
	_ grpc.ServerTransportStream = transportStream{}
)

// transportStream presents a call to grpc.SetHeader and similar functions.
type transportStream struct{ *call }

// SetTrailer adds metadata that is sent with the status.
func (t transportStream) SetTrailer(md metadata.MD) error {
	t.call.SetTrailer(md)
	return nil
}

var errClientGone = status.Error(codes.Canceled, "the client is gone")

func (e *reactorEngine) openCall(s *http2.Stream, h *http2.Headers, m *method, gzip bool) http2.StreamHandler {
	c := &call{e: e, s: s, m: m, gzip: gzip, arrived: make(chan struct{}, 1), drained: make(chan struct{}, 1), stop: func() {}}
	ctx := metadata.NewIncomingContext(peer.NewContext(e.ctx, peerOf(s)), incoming(h))
	ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{c})
	if v := h.Get("grpc-timeout"); v != "" {
		d, ok := parseTimeout(v)
		if !ok {
			reply(s, status.Newf(codes.Internal, "malformed grpc-timeout %q", v))
			return nil
		}
		ctx, c.stop = context.WithTimeout(ctx, d)
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if m.stream != nil && !c.start() {
		return nil
	}
	return c
}

// start runs the handler unless too many are running. The engine waits for it.
func (c *call) start() bool {
	if !c.m.pool.enter() {
		c.finish(status.New(codes.ResourceExhausted, "too many calls are running; try again"))
		c.cancel(nil)
		c.stop()
		return false
	}
	c.e.run(c)
	return true
}

// serve runs the handler and sends the outcome.
func (c *call) serve() {
	defer c.m.pool.leave()
	st := c.handle()
	c.finish(st)
	c.cancel(nil)
	c.stop()
}

// handle calls the method; a panic in the method ends only this call.
func (c *call) handle() (st *status.Status) {
	defer func() {
		if r := recover(); r != nil {
			c.e.cfg.Log.ErrorContext(c.ctx, "gRPC handler panicked", "method", c.m.path, "panic", r, "stack", string(debug.Stack()))
			st = status.New(codes.Internal, "internal error; the server's log says why")
		}
	}()
	if c.m.stream != nil {
		return statusOf(c.m.stream.Handler(c.m.srv, c))
	}
	out, err := c.m.unary(c.m.srv, c.ctx, c.RecvMsg, nil)
	if err == nil {
		err = c.SendMsg(out)
	}
	return statusOf(err)
}

// finish sends the outcome, with the headers if nothing has been sent yet.
func (c *call) finish(st *status.Status) {
	c.mu.Lock()
	var fields []hpack.HeaderField
	if !c.headed {
		c.headed = true
		fields = appendMetadata(append(fields, fieldOK, fieldContentType), c.header)
	}
	fields = appendMetadata(statusFields(fields, st), c.trailer)
	held := c.queued
	c.queue, c.queued, c.eof = nil, 0, true
	c.mu.Unlock()
	c.s.Hold(-held)
	c.s.WriteTrailers(fields...)
}

// Data handles bytes of the request.
func (c *call) Data(b []byte) {
	for !c.ended {
		m, rest, ok, err := c.in.take(c.s, b, c.e.cfg.MaxMessage)
		if err == nil && ok {
			m.b, err = c.own(m)
		}
		if err == nil && ok && !c.s.Hold(len(m.b)) {
			err = errHeld
		}
		if err != nil {
			c.end(err)
			return
		}
		if !ok {
			return
		}
		c.push(m.b)
		b = rest
	}
}

// own returns a message's bytes in a form that the handler may keep.
func (c *call) own(m message) ([]byte, error) {
	switch {
	case m.packed && !c.gzip:
		return nil, errPacked
	case m.packed:
		return inflate(m.b, c.e.cfg.MaxMessage)
	case m.owned:
		return m.b, nil
	}
	return append(make([]byte, 0, len(m.b)), m.b...), nil
}

func (c *call) push(msg []byte) {
	c.mu.Lock()
	if c.eof {
		c.mu.Unlock()
		c.s.Hold(-len(msg))
		return
	}
	c.queue = append(c.queue, msg)
	c.queued += len(msg)
	pause := c.queued > recvAhead && !c.paused
	if pause {
		c.paused = true
	}
	c.mu.Unlock()
	if pause {
		c.s.Pause()
	}
	signal(c.arrived)
}

// HalfClosed reports that the request is complete.
func (c *call) HalfClosed() {
	if len(c.in.buf) > 0 {
		c.end(status.Error(codes.Internal, "the request ended within a message"))
		return
	}
	c.end(nil)
}

// end closes the receiving side, with err or as complete. A unary handler starts here. It runs on the loop.
func (c *call) end(err error) {
	if c.ended {
		return
	}
	c.ended = true
	c.in.drop(c.s)
	c.mu.Lock()
	if n := len(c.queue); err == nil && c.m.unary != nil && n != 1 {
		err = status.Errorf(codes.Internal, "a unary request has one message, this one had %d", n)
	}
	c.eof, c.failed = true, err
	c.mu.Unlock()
	signal(c.arrived)
	if c.m.unary != nil {
		c.start()
	}
}

// Resumed does nothing: the stream's window holds the client back, so no bytes are stored here.
func (c *call) Resumed() {}

// Drained wakes a waiting SendMsg.
func (c *call) Drained() { signal(c.drained) }

// Alive is for sessions.
func (c *call) Alive() {}

// Closed cancels the handler if the client or the connection ended the call.
func (c *call) Closed(err error) {
	if err != nil {
		c.cancel(errClientGone)
	}
	if c.ended {
		return
	}
	c.ended = true
	c.in.drop(c.s)
	if c.m.unary != nil { // it never became complete
		c.cancel(nil)
		c.stop()
		return
	}
	c.mu.Lock()
	c.eof, c.failed = true, errClientGone
	c.mu.Unlock()
	signal(c.arrived)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Method is the full name of the method.
func (c *call) Method() string { return c.m.path }

// Context returns the call's context. It ends at the call's deadline, when the client cancels, or when the handler has returned.
func (c *call) Context() context.Context { return c.ctx }

// SetHeader adds header metadata, as long as none was sent.
func (c *call) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headed {
		return status.Error(codes.Internal, "headers were sent already")
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader sends header metadata at once.
func (c *call) SendHeader(md metadata.MD) error {
	if err := c.SetHeader(md); err != nil {
		return err
	}
	c.sendHeader()
	return nil
}

func (c *call) sendHeader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headed {
		return
	}
	c.headed = true
	if len(c.header) == 0 {
		c.s.WriteRaw(answerHead, false)
		return
	}
	c.s.WriteHeaders(appendMetadata([]hpack.HeaderField{fieldOK, fieldContentType}, c.header)...)
}

// SetTrailer adds metadata that is sent with the status.
func (c *call) SetTrailer(md metadata.MD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
}

// SendMsg sends one message and waits while the client does not read.
func (c *call) SendMsg(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", m)
	}
	b, err := proto.Marshal(msg)
	if err != nil {
		return status.Errorf(codes.Internal, "encode answer: %v", err)
	}
	c.sendHeader()
	for !c.s.WriteMessage(nil, b) {
		select {
		case <-c.drained:
		case <-c.ctx.Done():
			return c.gone()
		}
	}
	return nil
}

// gone returns why the call's context ended.
func (c *call) gone() error {
	err := context.Cause(c.ctx)
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// RecvMsg waits for one message. io.EOF means that the client has sent all.
func (c *call) RecvMsg(m any) error {
	into, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", m)
	}
	for {
		msg, err := c.pop()
		switch {
		case errors.Is(err, errNothing):
		case err != nil:
			return err
		default:
			if err := proto.Unmarshal(msg, into); err != nil {
				return status.Errorf(codes.InvalidArgument, "decode request: %v", err)
			}
			return nil
		}
		select {
		case <-c.arrived:
		case <-c.ctx.Done():
			return c.gone()
		}
	}
}

var errNothing = errors.New("nothing has arrived")

func (c *call) pop() ([]byte, error) {
	c.mu.Lock()
	if c.failed != nil && c.m.stream == nil {
		defer c.mu.Unlock()
		return nil, c.failed
	}
	if len(c.queue) == 0 {
		defer c.mu.Unlock()
		switch {
		case !c.eof:
			return nil, errNothing
		case c.failed != nil:
			return nil, c.failed
		}
		return nil, io.EOF
	}
	msg := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.queued -= len(msg)
	resume := c.paused && c.queued <= recvAhead/2
	if resume {
		c.paused = false
	}
	c.mu.Unlock()
	c.s.Hold(-len(msg))
	if resume {
		c.s.Resume()
	}
	return msg, nil
}
