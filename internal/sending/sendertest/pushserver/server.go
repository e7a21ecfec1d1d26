// Package pushserver is a push service for tests: TLS and HTTP/2, endpoints that answer as real ones do, also when
// they are gone, overloaded, slow, hung or broken. It checks what a real one checks and keeps what it got, which
// tests decrypt with the keys of the subscription, as a browser would.
package pushserver

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/testservice"
)

// Behaviour is how an endpoint answers. The zero value accepts.
type Behaviour struct {
	Status     int           // 0: 201
	RetryAfter time.Duration // sent with the answer
	Delay      time.Duration // before the answer
	Hang       bool          // never answers
	Break      bool          // takes the message and breaks the connection
	Body       string
	Times      int // after so many messages it accepts; 0: for ever
}

// Behaviours of real push services.
var (
	Accepting   = Behaviour{}
	Gone        = Behaviour{Status: http.StatusGone}
	Missing     = Behaviour{Status: http.StatusNotFound}
	Failing     = Behaviour{Status: http.StatusInternalServerError}
	Hung        = Behaviour{Hang: true}
	Broken      = Behaviour{Break: true}
	Overloaded  = Behaviour{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
	Unavailable = Behaviour{Status: http.StatusServiceUnavailable}
)

// Options change the server's checks.
type Options struct {
	Public  string // VAPID key that must have signed; empty: any
	Quick   bool   // keeps no messages and heeds no Delay, Hang and Break: costs little beside the server that it loads
	OneKey  bool   // all subscriptions share their keys, so that a million of them are made quickly
	Streams int    // HTTP/2 streams a connection; 0: Go's default of 250
	Cap     int    // messages in any second, to all endpoints together; further ones get an answer to come back in a second; 0: no limit
}

// Server is a running push service.
type Server struct {
	testservice.Certificate

	URL  string // its origin
	opts Options
	http *httptest.Server

	all      atomic.Pointer[Behaviour]
	accepted atomic.Int64
	requests atomic.Int64
	conns    atomic.Int64
	verified sync.Map // tokens that were found good
	closed   chan struct{}
	once     sync.Once
	shared   *keys

	capped sync.Mutex
	recent []time.Time // messages of the last second that the cap let through

	mu        sync.RWMutex
	endpoints map[string]*endpoint
}

type endpoint struct {
	mu        sync.Mutex
	keys      *keys
	behaviour Behaviour
	left      int
	got       []Message
	accepted  int
}

type keys struct {
	private *ecdh.PrivateKey
	auth    []byte
}

// Start starts a server. Close it.
func Start(o Options) *Server {
	s := &Server{opts: o, closed: make(chan struct{}), endpoints: make(map[string]*endpoint)}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	if o.Quick {
		s.http.EnableHTTP2, s.http.TLS = false, &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
		s.http.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.serveQuick}
	} else if o.Streams > 0 {
		s.http.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: o.Streams}
	}
	s.http.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.http.StartTLS()
	s.URL, s.Certificate = s.http.URL, testservice.CertificateOf(s.http)
	return s
}

// Close ends hanging requests and stops the server.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closed) })
	s.http.Close()
}

// Subscribe makes an endpoint and returns its id and the subscription as a browser gives it away.
func (s *Server) Subscribe(b Behaviour) (id string, address json.RawMessage) {
	k := s.keys()
	id = strconv.Itoa(s.add(&endpoint{keys: k, behaviour: b, left: b.Times}))
	enc := base64.RawURLEncoding.EncodeToString
	return id, json.RawMessage(fmt.Sprintf(`{"endpoint":"%s/push/%s","expirationTime":null,"keys":{"p256dh":"%s","auth":"%s"}}`,
		s.URL, id, enc(k.private.PublicKey().Bytes()), enc(k.auth)))
}

func (s *Server) add(e *endpoint) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.endpoints) + 1
	s.endpoints[strconv.Itoa(n)] = e
	return n
}

func (s *Server) keys() *keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		return s.shared
	}
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the system has no randomness: no test can run
	}
	k := &keys{private: private, auth: make([]byte, 16)}
	_, _ = rand.Read(k.auth)
	if s.opts.OneKey {
		s.shared = k
	}
	return k
}

// Behave changes how an endpoint answers.
func (s *Server) Behave(id string, b Behaviour) {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviour, e.left = b, b.Times
}

// behaves is how a message to an endpoint is answered.
func (s *Server) behaves(e *endpoint) Behaviour {
	if !s.within(time.Now()) {
		return Overloaded
	}
	b := e.next()
	if all := s.all.Load(); all != nil {
		b = *all
	}
	return b
}

// within reports whether the cap allows one more message, and counts it.
func (s *Server) within(now time.Time) bool {
	if s.opts.Cap == 0 {
		return true
	}
	s.capped.Lock()
	defer s.capped.Unlock()
	for len(s.recent) > 0 && now.Sub(s.recent[0]) >= time.Second {
		s.recent = s.recent[1:]
	}
	if len(s.recent) >= s.opts.Cap {
		return false
	}
	s.recent = append(s.recent, now)
	return true
}

// BehaveAll makes all endpoints answer so; nil: each by its own setting.
func (s *Server) BehaveAll(b *Behaviour) { s.all.Store(b) }

// Connections counts how many were opened.
func (s *Server) Connections() int { return int(s.conns.Load()) }

// Requests counts what came.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Accepted counts the messages that were taken.
func (s *Server) Accepted() int { return int(s.accepted.Load()) }

// AcceptedBy counts the messages that an endpoint took.
func (s *Server) AcceptedBy(id string) int {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accepted
}

// Received are the messages that an endpoint took, oldest first; those that it then did not acknowledge are among them.
func (s *Server) Received(id string) []Message {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Message(nil), e.got...)
}

// find returns an endpoint; one that was never made is empty.
func (s *Server) find(id string) *endpoint {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.endpoints[id]; e != nil {
		return e
	}
	return &endpoint{behaviour: Missing}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return
	}
	id := strings.TrimPrefix(r.URL.Path, "/push/")
	e := s.find(id)
	b := s.behaves(e)
	h := headOf(r)
	if status, problem := s.check(&h, len(body)); status != 0 && b.Status == 0 {
		http.Error(w, problem, status)
		return
	}
	took := b.Break || b.Hang || b.Status == 0 || b.Status/100 == 2
	if took {
		e.take(&h, r, body, !b.Break && !b.Hang)
	}
	if !testservice.Wait(r.Context(), s.closed, b.Hang, b.Delay) {
		return
	}
	if b.Break {
		panic(http.ErrAbortHandler)
	}
	if took {
		s.accepted.Add(1)
		w.Header().Set("Location", s.URL+"/message/"+id)
	}
	if b.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(b.RetryAfter/time.Second)))
	}
	if b.Status == 0 {
		b.Status = http.StatusCreated
	}
	w.WriteHeader(b.Status)
	_, _ = io.WriteString(w, b.Body)
}

func (e *endpoint) next() Behaviour {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.behaviour
	if b.Times > 0 {
		if e.left == 0 {
			return Accepting
		}
		e.left--
	}
	return b
}

func (e *endpoint) take(h *head, r *http.Request, body []byte, accepted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if accepted {
		e.accepted++
	}
	e.got = append(e.got, Message{
		Topic: h.topic, Urgency: h.urgency, TTL: h.ttl, Authorization: h.authorization, URI: r.RequestURI, Proto: r.ProtoMajor, Body: body, keys: e.keys,
	})
}
