// Package apnsserver imitates Apple's push service for tests, with TLS and HTTP/2. A connection accepts one message at a time until a token
// was accepted; the server checks tokens' signature, issuer, age and rate of change. Devices give every answer that Apple's do, and
// connections are ended with a reason. The server stores the messages that it receives.
package apnsserver

import (
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/testservice"
)

// Behaviour sets the answers to a device's messages. The zero value accepts.
type Behaviour struct {
	Status     int // 0: 200
	Reason     string
	Since      time.Time     // the timestamp beside it
	RetryAfter time.Duration // sent with the answer
	Body       string        // replaces Apple's JSON body
	Hang       bool          // never answers
	Break      bool          // accepts the message and breaks the connection
	GoAway     string        // ends the connection with this reason; without Break the message is not processed
	channel    string        // id of a broadcast channel that was made
	Times      int           // number of messages that this behaviour applies to; later ones are accepted; 0: all
}

// Behaviours of the real service.
var (
	Accepting    = Behaviour{}
	Unregistered = Behaviour{Status: http.StatusGone, Reason: "Unregistered", Since: time.UnixMilli(1_700_000_000_123)}
	Hung         = Behaviour{Hang: true}
	Broken       = Behaviour{Break: true}
	Failing      = Behaviour{Status: http.StatusInternalServerError, Reason: "InternalServerError"}
	Unavailable  = Behaviour{Status: http.StatusServiceUnavailable, Reason: "ServiceUnavailable"}
)

// Options are the credentials that the service accepts.
type Options struct {
	Public *ecdsa.PublicKey // of the key
	KeyID  string
	TeamID string
	Topic  string
	Now    func() time.Time // nil: time.Now
	// Streams limits the concurrent messages on a connection after a token was accepted; 0: 1000.
	Streams int
	// Channels limits the broadcast channels; 0: 10,000.
	Channels int
	// NoBroadcast: the app has not enabled broadcasts.
	NoBroadcast bool
	// Rest is the shortest allowed time between two changes of the token; 0: 20 minutes.
	Rest time.Duration
}

// Server is a running push service.
type Server struct {
	testservice.Certificate

	URL  string
	opts Options
	http *httptest.Server

	mu         sync.Mutex
	conns      map[*conn]bool
	opened     int
	devices    map[string]*device
	broadcasts map[string]*broadcast
	all        *Behaviour
	requests   int
	accepted   int
	violations []string

	token   string    // the last that was accepted
	changed time.Time // when it came first
	tokens  int
}

type device struct {
	behaviour Behaviour
	left      int
	got       []Message

	kind  kind
	typ   string // of the activities that may be started
	shown Shown
}

// Message is a message that was sent to a device.
type Message struct {
	Device, ID, Topic, PushType, Priority, Expiration, Collapse, Authorization, Channel, RequestID string

	Payload []byte
	method  string
	path    string
}

// Start starts a server; the caller closes it.
func Start(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Streams == 0 {
		o.Streams = 1000
	}
	if o.Channels == 0 {
		o.Channels = maxChannels
	}
	if o.Rest == 0 {
		o.Rest = tokenRest
	}
	s := &Server{opts: o, conns: make(map[*conn]bool), devices: make(map[string]*device), broadcasts: make(map[string]*broadcast)}
	s.http = httptest.NewUnstartedServer(http.NotFoundHandler())
	s.http.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	s.http.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.serve}
	s.http.StartTLS()
	s.URL, s.Certificate = s.http.URL, testservice.CertificateOf(s.http)
	return s
}

// Close breaks open connections and stops the server.
func (s *Server) Close() {
	s.mu.Lock()
	for c := range s.conns {
		c.nc.Close()
	}
	s.mu.Unlock()
	s.http.Close()
}

// Register makes a device and returns its token, and the endpoint address that contains it.
func (s *Server) Register(b Behaviour) (token string, address json.RawMessage) {
	return s.register(&device{behaviour: b, left: b.Times})
}

// Behave sets the answers to a device's messages.
func (s *Server) Behave(token string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[token]
	d.behaviour, d.left = b, b.Times
}

// BehaveAll sets the answers to the messages of all devices; nil: each device's own behaviour applies.
func (s *Server) BehaveAll(b *Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = b
}

// Received returns the messages to a device, oldest first, including those that got no answer.
func (s *Server) Received(token string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.devices[token] == nil {
		return nil
	}
	return append([]Message(nil), s.devices[token].got...)
}

// Accepted counts the accepted messages.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Requests counts all requests, invalid ones included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Connections counts the connections opened so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Tokens counts the different tokens accepted so far.
func (s *Server) Tokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// Violations lists breaches of the rules for connections.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

// GoAway ends all connections with a reason, once the requests under way are answered.
func (s *Server) GoAway(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.goAway(c.last, reason)
	}
}

// behaves returns the answer to a message for a device, and records the message if it is accepted.
func (s *Server) behaves(m *Message) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[m.Device]
	b := Behaviour{Status: http.StatusBadRequest, Reason: "BadDeviceToken"}
	if d != nil {
		b = d.next()
	}
	if s.all != nil {
		b = *s.all
	}
	if b.Status == 0 && d != nil {
		if wrong := s.suits(m, d); wrong.Status != 0 {
			return wrong
		}
	}
	if b.Status == 0 && (b.GoAway == "" || b.Break) && d != nil {
		d.got = append(d.got, *m)
		d.shown.show(m.Payload)
		if !b.Hang && !b.Break {
			s.accepted++
		}
	}
	return b
}

func (d *device) next() Behaviour {
	b := d.behaviour
	if b.Times > 0 {
		if d.left == 0 {
			return Accepting
		}
		d.left--
	}
	return b
}
