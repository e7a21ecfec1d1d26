package h2post

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/sending/foreign"
)

const (
	readBuffer    = 16 << 10
	maxHeaderList = 32 << 10 // of an answer
	tableBytes    = 4096     // bytes of header fields that both sides remember; the initial size in RFC 7541
	// maxControl is the most bytes of control frames that wait for a server which sends requests for them and does not read: pings,
	// settings, resets.
	maxControl = 64 << 10
	// keepOut is the most bytes of memory that the writer keeps between writes.
	keepOut = 64 << 10
	// unsaid is the most messages under way to a server that states no limit.
	unsaid = 250
)

// conn is a connection. The fields below "guarded" are guarded by the host's lock.
type conn struct {
	h  *host
	nc net.Conn
	fr *http2.Framer // reads

	// guarded
	streams      map[uint32]*stream
	pending      []*stream // not written yet
	control      []byte    // frames that go before them
	active       int       // number of messages that are pending or unanswered
	nextID       uint32
	maxStreams   int
	window       int64 // bytes that the server still accepts on the connection
	streamWindow int64 // and in one message
	table        uint32
	draining     bool  // takes no more messages
	dead         error // why it is closed
	bye          error // the server's reason for ending the connection; nil: not ended yet
	heard        time.Time
	used         time.Time
	pinged       bool
	watch        *time.Timer

	wake chan struct{} // the writer has something to do

	// the writer's
	enc   *hpack.Encoder
	block bytes.Buffer
	out   []byte
	batch []*stream
	limit uint32 // size in bytes of the encoder's header table

	uncredited int // bytes read and not yet returned to the server's window; used only by the reader
}

// open connects and waits for the server's first frame, its settings.
func open(ctx context.Context, h *host) (*conn, error) {
	cfg := &h.c.cfg
	nc, err := cfg.Dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	c, err := greet(ctx, h, nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func greet(ctx context.Context, h *host, nc net.Conn) (*conn, error) {
	secure, err := h.encrypt(ctx, nc)
	if err != nil {
		return nil, err
	}
	c := &conn{
		h: h, nc: secure, streams: make(map[uint32]*stream), nextID: 1, maxStreams: unsaid,
		window: 65535, streamWindow: 65535, table: tableBytes, limit: tableBytes, wake: make(chan struct{}, 1),
	}
	c.enc = hpack.NewEncoder(&c.block)
	c.fr = http2.NewFramer(nil, bufio.NewReaderSize(secure, readBuffer))
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(frameBytes)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(tableBytes, nil)
	c.fr.MaxHeaderListSize = maxHeaderList
	deadline, _ := ctx.Deadline()
	if err := secure.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := secure.Write(appendGreeting(nil)); err != nil {
		return nil, err
	}
	f, err := c.fr.ReadFrame()
	if err != nil {
		return nil, err
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return nil, foreign.Own(fmt.Sprintf("the server's first frame is %s, not SETTINGS", f.Header().Type))
	}
	if err := c.adopt(settings); err != nil {
		return nil, err
	}
	c.control = appendSettingsAck(c.control)
	return c, secure.SetDeadline(time.Time{})
}

// encrypt makes the TLS handshake with a server, which has to choose HTTP/2.
func (h *host) encrypt(ctx context.Context, nc net.Conn) (*tls.Conn, error) {
	name, _, err := net.SplitHostPort(h.address)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if of := h.c.cfg.TLS; of != nil && of() != nil {
		conf = of().Clone()
	}
	conf.ServerName, conf.NextProtos = name, []string{"h2", "http/1.1"}
	secure := tls.Client(nc, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, ErrUnsuited
	}
	return secure, nil
}

// begin starts the connection's goroutines. h.mu is held, as in all functions below except the loops.
func (c *conn) begin() {
	c.heard = time.Now()
	c.used = c.heard
	c.watch = time.AfterFunc(c.h.c.cfg.Silence/2, c.look)
	c.h.c.loops.begin(c.writeLoop)
	c.h.c.loops.begin(c.readLoop)
	c.kick()
}

func (c *conn) kick() {
	if c.dead != nil {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// queue adds a message for which there is room.
func (c *conn) queue(s *stream) {
	s.conn = c
	c.active++
	c.window -= int64(len(s.req.Body))
	c.pending = append(c.pending, s)
	c.kick()
}

// endUnseen ends a message that the server certainly did not process.
func (c *conn) endUnseen(s *stream, err error) {
	if s.ended { // the caller is already reading the result
		return
	}
	s.again, s.left = true, false
	c.end(s, err)
}

// end ends a message. None of its bytes are written after that.
func (c *conn) end(s *stream, err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	if s.id != 0 {
		delete(c.streams, s.id)
	}
	c.active--
	close(s.done)
	if c.dead != nil {
		return
	}
	c.used = time.Now()
	if c.draining && c.active == 0 || c.active == 0 && c.h.c.closed.Load() {
		c.die(errClosed)
		return
	}
	c.h.wakeOne()
}

// retire closes a connection on which no message is under way.
func (c *conn) retire() {
	if c.active == 0 {
		c.die(errClosed)
	}
}

// die ends the connection, and all messages under way on it.
func (c *conn) die(err error) {
	if c.dead != nil {
		return
	}
	if c.bye != nil { // what follows says less
		err = c.bye
	}
	c.dead, c.draining = err, true
	c.watch.Stop()
	close(c.wake)
	// The deadline wakes both loops, and the reader closes the socket, which may take a while.
	_ = c.nc.SetDeadline(time.Unix(1, 0))
	for _, s := range c.pending {
		c.endUnseen(s, err)
	}
	for _, s := range c.streams {
		c.end(s, err)
	}
	c.h.remove(c)
}

func (c *conn) fail(err error) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.die(err)
}

// look sends a ping to a silent server, and closes an unused connection.
func (c *conn) look() {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.dead != nil {
		return
	}
	cfg := &c.h.c.cfg
	now := time.Now()
	switch silent := now.Sub(c.heard); {
	case c.active == 0 && (now.Sub(c.used) >= cfg.Idle || c.h.c.closed.Load()):
		c.die(errClosed)
		return
	case c.pinged && silent >= 2*cfg.Silence:
		c.die(foreign.Own(fmt.Sprintf("the server has been silent for %s", silent.Round(time.Second))))
		return
	case !c.pinged && silent >= cfg.Silence:
		c.pinged = true
		c.control = appendPing(c.control, false, [8]byte{})
		c.kick()
	}
	c.watch.Reset(cfg.Silence / 2)
}
