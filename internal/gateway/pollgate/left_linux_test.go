package pollgate_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/notify/notification"
)

// noted keeps what is written.
type noted struct {
	http.ResponseWriter
	text strings.Builder
}

func (n *noted) Write(b []byte) (int, error) {
	n.text.Write(b)
	return n.ResponseWriter.Write(b)
}

func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// waited is a context that tells when somebody begins to wait for its end.
type waited struct {
	context.Context
	begun func()
}

func (w waited) Done() <-chan struct{} {
	w.begun()
	return w.Context.Done()
}

// TestAPollOfAClientThatHasLeftTakesNothing: the client closes its connection properly, and net/http never notices, so the request's
// context continues.
func TestAPollOfAClientThatHasLeftTakesNothing(t *testing.T) {
	lines, answers := make(chan *reactor.Line, 10), make(chan string, 10)
	polls := make(chan struct{}, 10) // that wait
	s := gatetest.Start(t, func(s *gatetest.Server) {
		g := pollgate.New(pollgate.Config{Hub: s.Hub, Posting: s.Posting, Origins: s.Access, Log: s.Log})
		t.Cleanup(func() { _ = g.Close() })
		s.Mux.HandleFunc("/v1/poll", func(w http.ResponseWriter, r *http.Request) {
			lines <- reactor.LineOf(r.Context())
			n := &noted{ResponseWriter: w}
			begun := sync.OnceFunc(func() { polls <- struct{}{} })
			g.ServeHTTP(n, r.WithContext(waited{context.WithoutCancel(r.Context()), begun}))
			answers <- n.text.String()
		})
	})
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	<-lines
	nc, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, "GET /v1/poll?wait=50s&session="+c.Session+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line := <-lines
	<-polls // a request that is carried out after the next one would get the answer to that once more
	_ = nc.Close()
	for !line.PeerLeft() {
		runtime.Gosched()
	}
	s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: "ride-1", Content: notification.Content{Title: "x"}})
	if _, frames := fetchWithin(t, s, c.Session, "", "50s"); !strings.Contains(frames, `"ride-1"`) {
		t.Errorf("the next poll gets %s, want what the poll before could not give", frames)
	}
	given := 0
	for range 3 { // for the poll that opened the session, the client that left, and the next poll
		given += strings.Count(<-answers, `"ride-1"`)
	}
	if given != 1 {
		t.Errorf("the notification is in %d answers, want it in the last alone", given)
	}
}
