// Package http2 is the server side of HTTP/2 (RFC 9113) for gRPC: a push parser and a writer on a connection that never blocks. It handles
// streams and bytes, not calls. An idle connection with one open stream takes only two small structs.
package http2

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Transport is the connection under a Conn. All methods are safe for concurrent use; none blocks, or calls the Conn before it returns.
type Transport interface {
	// Write sends head, which is only valid during the call, and tail, which is shared and immutable. false: it accepted nothing.
	Write(head, tail []byte) bool
	// Queued returns the number of bytes that the socket has not accepted yet.
	Queued() int
	// CloseAfterFlush closes the connection after all written bytes are sent; Abort closes it at once.
	CloseAfterFlush(err error)
	Abort(err error)
	// Deaf reports that the peer takes no more bytes. Conn.Data still gets the bytes that it has sent; then Closed follows.
	Deaf() bool
	// SetTimer schedules one call of Conn.Tick after d; a later call replaces an earlier one.
	SetTimer(d time.Duration)
	// Nudge has Conn.Drained called soon.
	Nudge()
	// Cork collects writes until Uncork, which sends them together. Calls nest.
	Cork()
	Uncork()
}

// Handler opens streams.
type Handler interface {
	// Open handles a new request. It may answer at once. The fields of h are valid until it returns. A nil result means that the stream
	// needs no further callbacks.
	Open(s *Stream, h *Headers) StreamHandler
}

// LongHandler is a Handler that answers requests whose headers are too long. Without it, the answer is 431.
type LongHandler interface {
	// RefuseLong answers a request with this content type, which is empty if unknown.
	RefuseLong(s *Stream, contentType string)
}

// StreamHandler handles one request in the layer above. The connection's loop makes the calls one at a time, without holding a lock; they
// may call any method of the Stream.
type StreamHandler interface {
	// Data receives the next bytes of the request's body, which are valid until it returns. While the stream is paused, up to a window of
	// bytes may still arrive.
	Data(b []byte)
	// HalfClosed reports that the request is complete.
	HalfClosed()
	// Resumed reports that Stream.Resume was called: held-back data can be handled.
	Resumed()
	// Drained reports that a Write would succeed now, after one was refused.
	Drained()
	// Alive reports that the peer has answered the PING of Stream.Probe.
	Alive()
	// Closed is the last call, made once, however the stream ended. err is nil if the whole answer was sent, a *StreamError if either side
	// reset the stream, and otherwise the reason why the connection ended. It is never called from within a method of Stream.
	Closed(err error)
}

// Headers are the headers of a request.
type Headers struct {
	Method, Scheme, Authority, Path string
	Fields                          []hpack.HeaderField // the regular ones, in order
}

// Get returns the value of the first field with a name, or "".
func (h *Headers) Get(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value
		}
	}
	return ""
}

// Limits of the parser that are not configurable.
const (
	maxFrameSize    = 16 << 10 // largest frame that is accepted: the smallest limit that the protocol allows
	maxHeaderList   = 8 << 10  // bytes of a request's headers; larger ones are refused
	maxHeaderBlock  = 64 << 10 // bytes of a compressed header block, and announced limit of headers, so that a client with too long headers gets an answer; more ends the connection
	maxContinuation = 32       // number of frames in a header block; more ends the connection
	headerTable     = 4096     // size of the header table until the connection carries gRPC, then 0
	socketHighWater = 64 << 10 // with more unsent bytes, DATA waits in its stream: control frames must find room
	indexAfter      = 8        // number of streams above which a connection has a map of them
	maxWindow       = 1<<31 - 1
	defaultWindow   = 65535
)

// Config limits a server's connections. The zero value of a field stands for its default.
type Config struct {
	MaxStreams       int           // open streams on one connection; 1000
	StreamWindow     int           // bytes that a client may send ahead on one stream; 64 KiB
	ConnWindow       int           // bytes that a client may send ahead on all streams of a connection; 1 MiB
	StreamQueueBytes int           // bytes queued on one stream; an empty queue accepts one write of any size; 256 KiB
	ConnQueueBytes   int           // bytes queued on all streams of a connection; 4 MiB
	TotalQueueBytes  int64         // bytes queued on all connections; 512 MiB
	HoldBytes        int           // request bytes that the layer above may hold for one connection (Stream.Hold); 16 MiB
	FirstRequest     time.Duration // time from connect to the first request or the acknowledgement of the server's SETTINGS, whatever else arrives; 10 s, or the transport's own limit
	KeepAlive        time.Duration // silence after which a connection is pinged, or closed if it has no stream; also the time from the acknowledgement to the first request; 2 min
	CloseTimeout     time.Duration // time for an ended stream to drain; 5 s
}

func (c *Config) setDefaults() {
	def(&c.MaxStreams, 1000)
	def(&c.StreamWindow, 64<<10)
	def(&c.ConnWindow, 1<<20)
	def(&c.StreamQueueBytes, 256<<10)
	def(&c.ConnQueueBytes, 4<<20)
	def(&c.TotalQueueBytes, 512<<20)
	def(&c.HoldBytes, 16<<20)
	def(&c.FirstRequest, 10*time.Second)
	def(&c.KeepAlive, 2*time.Minute)
	def(&c.CloseTimeout, 5*time.Second)
	// A client may use the protocol's default window before it has received the server's.
	c.StreamWindow = max(c.StreamWindow, defaultWindow)
	c.ConnWindow = max(c.ConnWindow, defaultWindow)
	c.MaxStreams = min(c.MaxStreams, 1<<16-1)
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Server creates connections with one configuration and drains them together.
type Server struct {
	cfg      Config
	handler  Handler
	settings []byte // the server's first frames, equal for all connections
	queued   atomic.Int64

	mu       sync.Mutex
	conns    *Conn // intrusive list
	nconns   int
	draining bool
	idle     chan struct{} // closed when the server drains and no connection is left
	idleOnce sync.Once
}

// NewServer returns a server that passes streams to h.
func NewServer(cfg Config, h Handler) *Server {
	cfg.setDefaults()
	return &Server{cfg: cfg, handler: h, settings: firstFrames(&cfg), idle: make(chan struct{})}
}

// Conns returns the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nconns
}

// Queued returns the number of bytes that wait in the streams of all connections, for windows or for sockets.
func (s *Server) Queued() int64 { return s.queued.Load() }

// StreamError is the error of a stream that ended by a reset.
type StreamError struct {
	Code   ErrCode
	Remote bool // the peer reset it
	Reason string
}

func (e *StreamError) Error() string {
	who := "reset"
	if e.Remote {
		who = "reset by peer"
	}
	if e.Reason == "" {
		return fmt.Sprintf("stream %s: %s", who, e.Code)
	}
	return fmt.Sprintf("stream %s: %s: %s", who, e.Code, e.Reason)
}

// ConnError is the error of a connection that ends because its peer violated the protocol or a limit.
type ConnError struct {
	Code   ErrCode
	Reason string
}

func (e *ConnError) Error() string { return fmt.Sprintf("connection error %s: %s", e.Code, e.Reason) }
