// Package pushserver is a push service for tests: TLS and HTTP/2, and endpoints that answer as real ones do, including gone, overloaded,
// slow, hanging and broken ones. It checks what a real service checks and stores the messages, which tests decrypt with the subscription's
// keys, as a browser would.
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

// Behaviour sets an endpoint's answers. The zero value accepts.
type Behaviour struct {
	Status     int           // 0: 201
	RetryAfter time.Duration // sent with the answer
	Delay      time.Duration // before the answer
	Hang       bool          // never answers
	Break      bool          // accepts the message and breaks the connection
	Body       string
	Times      int // number of messages that this behaviour applies to; later ones are accepted; 0: all
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
	Public  string // VAPID key that must have signed the messages; empty: any
	Quick   bool   // stores no messages and ignores Delay, Hang and Break, and so costs little compared with the server under load
	OneKey  bool   // all subscriptions share one key pair, so that making a million of them is quick
	Streams int    // HTTP/2 streams a connection; 0: Go's default of 250
	Cap     int    // messages accepted in any second, over all endpoints; further ones are told to come back in a second; 0: no limit
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
	recent []time.Time // times of the messages that the cap allowed in the last second

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

// Start starts a server; the caller closes it.
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

// Subscribe makes an endpoint and returns its id, and its subscription as a browser gives it to a page.
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

// Behave sets an endpoint's answers.
func (s *Server) Behave(id string, b Behaviour) {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviour, e.left = b, b.Times
}

// behaves returns the answer to a message for an endpoint.
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

// within reports whether the cap allows one more message, and if so counts it.
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

// BehaveAll sets the answers of all endpoints; nil: each endpoint's own behaviour applies.
func (s *Server) BehaveAll(b *Behaviour) { s.all.Store(b) }

// Connections counts the connections opened so far.
func (s *Server) Connections() int { return int(s.conns.Load()) }

// Requests counts what came.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Accepted counts the accepted messages.
func (s *Server) Accepted() int { return int(s.accepted.Load()) }

// AcceptedBy counts the messages that an endpoint accepted.
func (s *Server) AcceptedBy(id string) int {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accepted
}

// Received returns the messages that an endpoint accepted, oldest first, including those that it then did not acknowledge.
func (s *Server) Received(id string) []Message {
	e := s.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Message(nil), e.got...)
}

// find returns an endpoint; an empty one if the id is unknown.
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
