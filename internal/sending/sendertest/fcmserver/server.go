// Package fcmserver imitates Firebase Cloud Messaging for tests: TLS and HTTP/2, its token service, and devices that give every answer of
// HTTP v1. It checks assertions, access tokens and messages as Google does, and stores the messages of devices.
package fcmserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/testservice"
)

// Email is the service account's address.
const Email = "godwit@demo.iam.gserviceaccount.com"

// Options change the server's behaviour.
type Options struct {
	Project string        // empty: demo-project
	Life    time.Duration // lifetime of access tokens; 0: an hour
	Quick   bool          // stores no messages, and so costs little compared with the client under test
	HTTP1   bool          // speaks nothing newer
	// Told is called with the godwit_id of each message and whether it was accepted; may be nil
	Told func(id string, taken bool)
	Cap  int // messages of the project accepted in any second; further ones are told to come back in a second; 0: no limit
}

// Message is a message that a device received.
type Message struct {
	Proto   int // 2: HTTP/2
	At      time.Time
	Data    map[string]string
	Android Android
	APNs    APNs
	WebPush WebPush
}

// Server is a running one.
type Server struct {
	testservice.Certificate

	URL  string
	opts Options
	http *httptest.Server
	key  *rsa.PrivateKey

	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	devices   map[string]*device
	all       *Behaviour
	access    map[string]bool // issued tokens, and whether they still work
	given     int
	fault     TokenFault
	problems  []string
	requests  int
	accepted  int
	validated int
	recent    []time.Time
}

type device struct {
	behaviour Behaviour
	left      int
	got       []Message
}

// sharedKey is the account's key: making one takes long, and its value does not matter.
var sharedKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the system has no randomness: no test can run
	}
	return key
})

// Start starts a server; the caller closes it.
func Start(o Options) *Server {
	if o.Project == "" {
		o.Project = "demo-project"
	}
	if o.Life == 0 {
		o.Life = time.Hour
	}
	s := &Server{opts: o, key: sharedKey(), closed: make(chan struct{}), devices: map[string]*device{}, access: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("POST /v1/projects/{call}", s.serveNothing)
	mux.HandleFunc("POST /v1/projects/{project}/{call}", s.serveSend)
	s.http = httptest.NewUnstartedServer(mux)
	s.http.EnableHTTP2 = !o.HTTP1
	s.http.StartTLS()
	s.URL, s.Certificate = s.http.URL, testservice.CertificateOf(s.http)
	return s
}

func (s *Server) serveNothing(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "no such call", http.StatusNotFound)
}

// Close ends hanging requests and stops the server.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closed) })
	s.http.Close()
}

// Account returns the service account's file, in the form that the Firebase console issues.
func (s *Server) Account() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		panic(err) // an RSA key always encodes
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": s.opts.Project, "private_key_id": "key-1", "client_email": Email,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": s.URL + "/token",
	})
	if err != nil {
		panic(err)
	}
	return file
}

// Device makes a device and returns its token, and the endpoint address that contains it.
func (s *Server) Device(b Behaviour) (token string, address json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token = "device-" + strconv.Itoa(len(s.devices)+1) + ":APA91b" + rand.Text()
	s.devices[token] = &device{behaviour: b, left: b.Times}
	address, _ = json.Marshal(map[string]string{"token": token}) // a text always encodes
	return token, address
}

// Behave sets the answers to a device's messages.
func (s *Server) Behave(token string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.devices[token]; d != nil {
		d.behaviour, d.left = b, b.Times
	}
}

// BehaveAll sets the answers to the messages of all devices; nil: each device's own behaviour applies.
func (s *Server) BehaveAll(b *Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = b
}

// Revoke invalidates all issued access tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.access {
		s.access[t] = false
	}
}

// Received returns the messages that a device received, oldest first, including those that then got no answer.
func (s *Server) Received(token string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.devices[token]; d != nil {
		return append([]Message(nil), d.got...)
	}
	return nil
}

// Counts counts the events so far.
type Counts struct {
	Requests  int // to send, of any kind
	Accepted  int // messages
	Validated int // questions, validate_only
	Tokens    int // access tokens given out
}

// Counts counts.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{Requests: s.requests, Accepted: s.accepted, Validated: s.validated, Tokens: s.given}
}

// Problems lists mistakes that no client of Google's may make: assertions and messages that were refused for their form.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.problems...)
}

func (s *Server) problem(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, text)
}
