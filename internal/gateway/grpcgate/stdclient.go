package grpcgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// Limits of a session on grpc-go.
const (
	stdQueueBytes   = 256 << 10       // most bytes that wait to be sent; an empty queue accepts one frame of any size
	stdCloseTimeout = 5 * time.Second // time for a client to read the end of its session
)

// stdClients implements godwit.v1.Client on grpc-go.
type stdClients struct {
	godwitpb.UnimplementedClientServer
	engine *stdEngine
	m      *SessionMethod
}

// stdClient is one stream: the transport of a session, with a reading and a writing goroutine.
type stdClient struct {
	engine  *stdEngine
	m       *SessionMethod
	begun   time.Duration // since the method was there
	stream  grpc.ServerStream
	session *session.Session

	mu       sync.Mutex
	queue    []rawMessage
	bytes    int
	refused  bool
	probed   bool
	over     bool
	bye      *frame.Goodbye
	patience *time.Timer   // ends late; with bye
	resumed  chan struct{} // not nil: the session is paused until this is closed

	wake chan struct{} // signals that there is something to write, or that the session ends
	late chan struct{} // closed when the client has had time to read the end of its session
	gone chan struct{} // closed when the client's side is over

	failed error // the client's error, if any; set before gone is closed
}

// Connect serves one session.
func (x *stdClients) Connect(stream grpc.BidiStreamingServer[godwitpb.ClientFrame, godwitpb.ServerFrame]) error {
	return x.engine.session(stream, x.m)
}

// session serves one stream that is a session, until the stream ends.
func (e *stdEngine) session(stream grpc.ServerStream, m *SessionMethod) error {
	ctx := stream.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	p, ok := peer.FromContext(ctx)
	if !ok {
		p = &peer.Peer{}
	}
	from := sessionPeer(p, first(md))
	var hello *frame.Hello
	if !m.own() {
		var err error
		if hello, from.Claim, err = m.Hello(first(md)); err != nil {
			return err
		}
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	c := &stdClient{engine: e, m: m, begun: time.Since(m.begun), stream: stream, wake: make(chan struct{}, 1), late: make(chan struct{}), gone: make(chan struct{})}
	c.session = m.Hub.Accept(c, from)
	if hello != nil {
		c.session.Frame(&frame.Client{Kind: frame.KindHello, Hello: hello})
	}
	e.readers.Go(func() { c.read(ctx) })
	written := make(chan struct{})
	e.readers.Go(func() { c.write(); close(written) })
	select {
	case <-written:
	case <-c.late:
	case <-c.gone:
	}
	g := c.goodbye()
	if g == nil { // the client ended the stream; its error may follow a moment later
		<-c.gone
		m.ended(c.begun, "")
		return c.failed
	}
	m.ended(c.begun, g.Reason)
	switch {
	case !m.own():
		return m.Goodbye(*g).Err()
	case g.Refusal:
		return status.Error(codes.Unauthenticated, g.Reason)
	}
	return nil
}

// read passes frames to the session until the stream ends, and then ends the session.
func (c *stdClient) read(ctx context.Context) {
	c.failed = c.frames(ctx)
	c.mu.Lock()
	c.over, c.queue = true, nil
	c.account(-c.bytes)
	c.mu.Unlock()
	signal(c.wake)
	close(c.gone)
	c.session.Closed()
}

func (c *stdClient) frames(ctx context.Context) error {
	var raw clientMessage
	if !c.ready(ctx) { // a hello that came as metadata may still be under verification
		return nil
	}
	for {
		err := c.stream.RecvMsg(&raw)
		switch {
		case errors.Is(err, io.EOF): // a client that has only ended its side still receives, unless it is a guest
			if !c.m.own() && !c.m.Deaf {
				c.session.Goodbye(frame.Goodbye{Reason: left})
			}
			<-ctx.Done()
			return nil
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(raw) > maxClientFrame:
			return errTooLarge(uint64(len(raw)), maxClientFrame)
		}
		if c.m.Deaf {
			c.session.Alive()
			continue
		}
		handle(c.session, raw, c.m.Format)
		if !c.ready(ctx) {
			return nil
		}
	}
}

// ready waits while the session is paused.
func (c *stdClient) ready(ctx context.Context) bool {
	c.mu.Lock()
	resumed := c.resumed
	c.mu.Unlock()
	if resumed == nil {
		return true
	}
	select {
	case <-resumed:
		return true
	case <-ctx.Done():
		return false
	}
}

// write sends the queue until the session or the stream ends.
func (c *stdClient) write() {
	for range c.wake {
		for {
			m, probed, ok, end := c.next()
			if probed {
				if c.m.own() && !ok && !end { // proxies end idle streams
					if err := c.stream.SendMsg(&rawMessage{}); err != nil {
						return
					}
				}
				c.session.Alive() // grpc-go's keep-alive checks that the client is alive
			}
			if end {
				return
			}
			if !ok {
				break
			}
			if err := c.stream.SendMsg(&m); err != nil {
				return
			}
		}
	}
}

// next removes the first message from the queue.
func (c *stdClient) next() (m rawMessage, probed, ok, end bool) {
	c.mu.Lock()
	probed, c.probed = c.probed, false
	if len(c.queue) > 0 {
		m = c.queue[0]
		c.queue[0] = rawMessage{}
		c.queue = c.queue[1:]
		c.account(-m.size())
		c.mu.Unlock()
		return m, probed, true, false
	}
	drained := c.refused && !c.over
	c.refused = false
	end = c.over || c.bye != nil
	c.mu.Unlock()
	if drained && !end {
		c.session.Drained()
	}
	return m, probed, false, end
}

func (c *stdClient) account(n int) {
	c.bytes += n
	c.engine.waiting.Add(int64(n))
}

// Format is the method's.
func (c *stdClient) Format() frame.Format { return c.m.Format }

// Name is the transport's name in metrics.
func (c *stdClient) Name() string { return c.m.Name }

// Write queues one frame, if the method's streams carry frames of this kind.
func (c *stdClient) Write(k frame.ServerKind, head, tail []byte) bool {
	if !c.m.sends(k, c.begun) {
		return true
	}
	n := len(head) + len(tail)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.bye != nil {
		return false
	}
	if len(c.queue) > 0 && c.bytes+n > stdQueueBytes {
		c.refused = true
		return false
	}
	c.queue = append(c.queue, rawMessage{head: append([]byte(nil), head...), tail: tail})
	c.account(n)
	signal(c.wake)
	return true
}

// Queued is how many bytes wait until the client reads them.
func (c *stdClient) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Probe makes the writing goroutine send an empty frame, which the client answers.
func (c *stdClient) Probe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probed = true
	signal(c.wake)
}

// Close ends the call after the queue was sent.
func (c *stdClient) Close(g frame.Goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bye == nil {
		c.bye = &g
		c.patience = time.AfterFunc(stdCloseTimeout, func() { close(c.late) })
	}
	signal(c.wake)
}

// Pause stops the reading of frames.
func (c *stdClient) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed == nil {
		c.resumed = make(chan struct{})
	}
}

// Resume ends a Pause.
func (c *stdClient) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed != nil {
		close(c.resumed)
		c.resumed = nil
	}
}

func (c *stdClient) goodbye() *frame.Goodbye {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.patience != nil {
		c.patience.Stop()
	}
	return c.bye
}

// rawMessage is an encoded message to the client, which grpc-go sends unchanged.
type rawMessage struct{ head, tail []byte }

// clientMessage is an encoded message from the client.
type clientMessage []byte

func (m *rawMessage) size() int { return len(m.head) + len(m.tail) }

// rawCodec is the protobuf codec, except that it passes encoded messages through.
type rawCodec struct{}

// Name returns protobuf's name: on the wire there is no difference.
func (rawCodec) Name() string { return "proto" }

// Marshal encodes v.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *rawMessage:
		out := mem.BufferSlice{mem.SliceBuffer(m.head)}
		if len(m.tail) > 0 {
			out = append(out, mem.SliceBuffer(m.tail))
		}
		return out, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("%T is not a protobuf message", v)
}

// Unmarshal decodes into v.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *clientMessage:
		*m = data.Materialize()
		return nil
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), m)
	}
	return fmt.Errorf("%T is not a protobuf message", v)
}
