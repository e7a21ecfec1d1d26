package godwit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// conn is one connection for a session. At most one goroutine calls send at a time, and one other calls recv; abort ends both calls.
type conn interface {
	send(frames ...*clientFrame) error
	recv() (serverFrame, error)
	// finish closes the connection after the sent frames have reached the server. recv must be running meanwhile.
	finish()
	// abort closes the connection at once. It may be called after finish, and more than once.
	abort()
}

// finishPatience is how long finish waits for the server's confirmation.
const finishPatience = time.Second

// maxFrame limits one frame from the server, in bytes: a request of 1 MiB of text in which every byte needs escaping.
const maxFrame = 8 << 20

// dial opens a connection with the client's options.
func (c *Client) dial(ctx context.Context) (conn, error) {
	switch {
	case c.grpcAddr != "":
		return c.dialGRPC(ctx)
	case c.transport != nil:
		return c.dialLink(ctx)
	}
	return c.dialWebSocket(ctx)
}

// Subprotocols; the first costs both sides less and is preferred.
const (
	protocolProto = "godwit.v1.proto"
	protocolJSON  = "godwit.v1.json"
)

type wsConn struct {
	ws       *websocket.Conn
	wire     *gathering
	proto    bool
	in       []byte       // what was read last
	taken    atomic.Int64 // bytes of the frames that were read
	begins   bool         // a message is about to be read, of which nothing was read from the network
	out, own []byte       // what is written next
}

// maxKept is the largest buffer that is kept, so that the buffers of a rare long frame are freed.
const maxKept = 64 << 10

func (c *Client) dialWebSocket(ctx context.Context) (conn, error) {
	u := *c.base
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	u.Path += "/v1/connect"
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("server did not answer in %s", c.timeout))
	defer cancel()
	var gather gatherer
	via := *c.http
	gather.RoundTripper, via.Transport = via.Transport, &gather
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPClient: &via, Subprotocols: []string{protocolProto, protocolJSON},
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			body, _ := io.ReadAll(resp.Body) // the library keeps at most 1,024 bytes of it
			return nil, responseError(resp, body)
		}
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the outer error only adds "WebSocket" and the address
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	ws.SetReadLimit(maxFrame)
	return &wsConn{ws: ws, wire: gather.conn, proto: ws.Subprotocol() == protocolProto}, nil
}

func (c *wsConn) send(frames ...*clientFrame) error {
	if len(frames) == 1 {
		return c.sendOne(frames[0])
	}
	c.wire.hold()
	for _, f := range frames {
		if err := c.sendOne(f); err != nil {
			return err
		}
	}
	return c.wire.release()
}

func (c *wsConn) sendOne(f *clientFrame) error {
	kind, encode := websocket.MessageText, c.json
	if c.proto {
		kind, encode = websocket.MessageBinary, c.protobuf
	}
	b, err := encode(f)
	if err != nil {
		return err
	}
	return c.ws.Write(context.Background(), kind, b)
}

func (c *wsConn) json(f *clientFrame) ([]byte, error) { return json.Marshal(f) }

func (c *wsConn) protobuf(f *clientFrame) ([]byte, error) {
	if b, ok := c.quick(f); ok {
		return b, nil
	}
	return proto.Marshal(f.proto())
}

// quick encodes the frames that workers send most. It returns false for all other frames.
func (c *wsConn) quick(f *clientFrame) (b []byte, ok bool) {
	if f.Reply == nil {
		return nil, false
	}
	if cap(c.out) > maxKept {
		c.out, c.own = nil, nil
	}
	if c.own, ok = quickReply(c.own[:0], f.Reply); ok {
		c.out = protowire.AppendBytes(protowire.AppendTag(c.out[:0], fieldReply, protowire.BytesType), c.own)
	}
	return c.out, ok
}

func (c *wsConn) recv() (serverFrame, error) {
	b, err := c.read()
	if err != nil {
		if websocket.CloseStatus(err) == websocket.StatusPolicyViolation {
			return serverFrame{}, &RefusedError{Reason: closeReason(err)}
		}
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			err = inner // the outer errors only name the call that failed
		}
		return serverFrame{}, fmt.Errorf("connection lost: %w", err)
	}
	if c.proto {
		return decodeProto(b), nil
	}
	return decodeJSON(b), nil
}

// read reads one message; the result is valid until the next call.
func (c *wsConn) read() ([]byte, error) {
	c.begins = true
	_, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	if c.in == nil || cap(c.in) > maxKept {
		c.in = make([]byte, 0, 2<<10)
	}
	for c.in = c.in[:0]; ; {
		n, err := r.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		switch {
		case errors.Is(err, io.EOF):
			c.taken.Add(int64(headerSize(len(c.in)) + len(c.in)))
			return c.in, nil
		case err != nil:
			return nil, err
		case len(c.in) == cap(c.in):
			c.in = slices.Grow(c.in, len(c.in))
		}
	}
}

// headerSize returns how many bytes a server's frame has before its payload (RFC 6455, section 5.2).
func headerSize(payload int) int {
	switch {
	case payload < 126:
		return 2
	case payload <= 0xffff:
		return 4
	}
	return 10
}

// drained implements batched. It may err until the next read from the network, after a message of several frames or a ping of the server.
func (c *wsConn) drained() bool { return c.taken.Load() >= c.wire.received.Load() }

// beforeRead implements batched.
func (c *wsConn) beforeRead(f func()) {
	c.wire.before = func() {
		if c.begins {
			c.begins = false
			c.taken.Store(c.wire.received.Load())
		}
		f()
	}
}

func closeReason(err error) string {
	var e websocket.CloseError
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return "policy"
}

// finish ignores the error of closing: the session is over either way.
func (c *wsConn) finish() { _ = c.ws.Close(websocket.StatusNormalClosure, "") }
func (c *wsConn) abort()  { _ = c.ws.CloseNow() }
