// Package hookserver is a receiver of webhooks for tests: it verifies signatures as Standard Webhooks requires, stores the messages that it
// receives, and gives the answers that its test sets.
package hookserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Message is what came.
type Message struct {
	ID   string
	Body string
	At   time.Time
}

// Behaviour sets the receiver's answers. The zero value accepts messages.
type Behaviour struct {
	Status     int // 0: 204
	RetryAfter time.Duration
	Hang       bool
	Break      bool
	Takes      time.Duration // from a message to its answer
	Times      int           // number of messages that this behaviour applies to; later ones are accepted; 0: all
}

// Server is a running receiver.
type Server struct {
	URL    string
	http   *httptest.Server
	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	secret    string
	behaviour Behaviour
	left      int
	took      []Message
	refused   []error
	requests  int
	underway  int
	most      int // of underway
	news      chan struct{}
}

// Start starts a receiver that verifies signatures with a secret; the caller closes it.
func Start(secret string) *Server {
	s := &Server{secret: secret, closed: make(chan struct{}), news: make(chan struct{})}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL + "/hook?key=k3y"
	return s
}

// Close ends hanging requests and stops the server.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closed) })
	s.http.Close()
}

// Secret changes the secret for verifying signatures.
func (s *Server) Secret(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = secret
}

// Behave changes how it answers.
func (s *Server) Behave(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour, s.left = b, b.Times
}

// Took returns the accepted messages, oldest first.
func (s *Server) Took() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.took...)
}

// Requests counts all requests.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Most is how many requests were under way at once.
func (s *Server) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Refused lists the reasons why messages were not accepted.
func (s *Server) Refused() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.refused...)
}

// Next returns a channel that is closed with the next request after the call.
func (s *Server) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b := s.receive(r, body)
	defer s.answered()
	if b.Takes > 0 {
		select {
		case <-time.After(b.Takes):
		case <-s.closed:
		}
	}
	switch {
	case b.Hang:
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
		return
	case b.Break:
		panic(http.ErrAbortHandler)
	case b.RetryAfter > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(b.RetryAfter/time.Second)))
	}
	if b.Status == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "https://elsewhere.example/")
	}
	if b.Status == 0 {
		b.Status = http.StatusNoContent
	}
	w.WriteHeader(b.Status)
	if b.Status == http.StatusBadGateway {
		_, _ = io.WriteString(w, "<html>bad gateway</html>")
	}
}

// answered notes that a request has ended.
func (s *Server) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway--
}

// receive records a request and decides how to answer it.
func (s *Server) receive(r *http.Request, body []byte) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.underway++
	s.most = max(s.most, s.underway)
	defer func() { close(s.news); s.news = make(chan struct{}) }()
	b := s.behaviour
	if b.Times > 0 {
		if s.left == 0 {
			b = Behaviour{}
		} else {
			s.left--
		}
	}
	if err := Verify(s.secret, r.Header, body); err != nil {
		s.refused = append(s.refused, err)
		return Behaviour{Status: http.StatusUnauthorized}
	}
	if b.Hang || b.Break || b.Status == 0 || b.Status/100 == 2 {
		s.took = append(s.took, Message{ID: r.Header.Get("Webhook-Id"), Body: string(body), At: time.Now()})
	}
	return b
}

// Verify verifies a message as a receiver does.
func Verify(secret string, h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return errors.New("webhook-id or webhook-timestamp is missing")
	}
	if off := time.Since(time.Unix(at, 0)); off > 5*time.Minute || off < -5*time.Minute {
		return errors.New("webhook-timestamp is more than five minutes off")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for sig := range strings.FieldsSeq(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(sig), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature matches")
}
