// Package http2 is the server side of HTTP/2 (RFC 9113) as gRPC uses it: a push parser and a writer on a connection
// that never blocks. It knows streams and bytes, not calls. An idle connection with one open stream holds two small
// structs and nothing else.
package http2

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Transport is what a Conn needs of the connection under it. All methods are safe for concurrent use and none blocks
// or calls back into the Conn before it returns.
type Transport interface {
	// Write sends head, borrowed until it returns, and tail, shared and immutable. False: nothing was taken.
	Write(head, tail []byte) bool
	// Queued is how many bytes the socket has not taken yet.
	Queued() int
	// CloseAfterFlush closes the connection once all written bytes are sent, Abort at once.
	CloseAfterFlush(err error)
	Abort(err error)
	// SetTimer has Conn.Tick called after d; a later call replaces an earlier one.
	SetTimer(d time.Duration)
	// Nudge has Conn.Drained called soon.
	Nudge()
	// Cork has writes wait for Uncork, to leave together. Calls nest.
	Cork()
	Uncork()
}

// Handler opens streams.
type Handler interface {
	// Open takes a new request. It may answer at once. The fields of h are valid until it returns. A nil answer
	// means that the stream needs no further calls.
	Open(s *Stream, h *Headers) StreamHandler
}

// LongHandler is a Handler that answers requests whose headers are too long. Others leave it to a 431.
type LongHandler interface {
	// RefuseLong answers a request of a content type, which may be unknown.
	RefuseLong(s *Stream, contentType string)
}

// StreamHandler is one request as the layer above handles it. The calls come one at a time per connection, from its
// loop, holding no lock; it may call any method of its Stream.
type StreamHandler interface {
	// Data brings the next bytes of the request's body, borrowed until it returns. While the stream is paused, at most a
	// window of bytes may still come.
	Data(b []byte)
	// HalfClosed says that the request is complete.
	HalfClosed()
	// Resumed says that Stream.Resume was called: data that was kept back can be handled.
	Resumed()
	// Drained says that a Write after a refused one would succeed now.
	Drained()
	// Alive says that the peer has answered the probe asked for with Stream.Probe.
	Alive()
	// Closed is the last call, once, however the stream ended: nil if the answer was sent whole, *StreamError if
	// either side reset it, else why the connection ended. It is never called from within a method of Stream.
	Closed(err error)
}

// Headers is a request's header list.
type Headers struct {
	Method, Scheme, Authority, Path string
	Fields                          []hpack.HeaderField // the regular ones, in order
}

// Get returns the first field of a name, or "".
func (h *Headers) Get(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value
		}
	}
	return ""
}

// Limits of the protocol's parser that nobody needs to change.
const (
	maxFrameSize    = 16 << 10 // of a frame we accept: the protocol's smallest allowed limit
	maxHeaderList   = 8 << 10  // of a request's headers; more is refused
	maxHeaderBlock  = 64 << 10 // of a compressed header block, and of headers as announced, so that clients hear of a refusal; more ends the connection
	maxContinuation = 32       // frames of a header block; more ends the connection
	headerTable     = 4096     // until the connection turns out to carry gRPC, then 0
	socketHighWater = 64 << 10 // with more unsent bytes, DATA waits in its stream: control frames must find room
	indexAfter      = 8        // streams on a connection before they get a map
	maxWindow       = 1<<31 - 1
	defaultWindow   = 65535
)

// Config bounds a server's connections. The zero value of a field means its default.
type Config struct {
	MaxStreams       int           // open at a time on one connection; 1000
	StreamWindow     int           // bytes a client may send ahead on one stream; 64 KiB
	ConnWindow       int           // the same on all streams of a connection; 1 MiB
	StreamQueueBytes int           // bytes waiting to be sent on one stream; an empty queue takes one write of any size; 256 KiB
	ConnQueueBytes   int           // the same on all streams of a connection; 4 MiB
	TotalQueueBytes  int64         // the same on all connections; 512 MiB
	HoldBytes        int           // request bytes the layer above may hold for one connection (Stream.Hold); 16 MiB
	FirstRequest     time.Duration // from connect to the first request or the acknowledgement of our SETTINGS, whatever comes meanwhile; 10 s, or what the transport has patience for
	KeepAlive        time.Duration // of silence before a connection is pinged, or closed if it has no stream; from the acknowledgement to the first request; 2 min
	CloseTimeout     time.Duration // for a stream that was ended to drain; 5 s
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
	// A client may use the protocol's default window before it has seen ours.
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

// Server makes connections of one configuration and drains them together.
type Server struct {
	cfg      Config
	handler  Handler
	settings []byte // our first frames, the same for everybody
	queued   atomic.Int64

	mu       sync.Mutex
	conns    *Conn // intrusive list
	nconns   int
	draining bool
	idle     chan struct{} // closed when draining and no connection is left
	idleOnce sync.Once
}

// NewServer returns a server that hands streams to h.
func NewServer(cfg Config, h Handler) *Server {
	cfg.setDefaults()
	return &Server{cfg: cfg, handler: h, settings: firstFrames(&cfg), idle: make(chan struct{})}
}

// Conns is how many connections are open.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nconns
}

// Queued is how many bytes wait in the streams of all connections, for windows or for sockets.
func (s *Server) Queued() int64 { return s.queued.Load() }

// StreamError is the end of one stream by a reset.
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

// ConnError is the end of a connection whose peer broke the protocol or a limit.
type ConnError struct {
	Code   ErrCode
	Reason string
}

func (e *ConnError) Error() string { return fmt.Sprintf("connection error %s: %s", e.Code, e.Reason) }
