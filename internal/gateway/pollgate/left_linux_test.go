package pollgate_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/reactor"
)

// TestAPollOfAClientThatHasLeftTakesNothing has the client close its connection orderly, and net/http never notice: the
// request's context lives on.
func TestAPollOfAClientThatHasLeftTakesNothing(t *testing.T) {
	lines := make(chan *reactor.Line, 10)
	s := gatetest.Start(t, func(s *gatetest.Server) {
		g := pollgate.New(pollgate.Config{Hub: s.Hub, Posting: s.Posting, Origins: s.Access, Log: s.Log})
		t.Cleanup(func() { _ = g.Close() })
		s.Mux.HandleFunc("/v1/poll", func(w http.ResponseWriter, r *http.Request) {
			lines <- reactor.LineOf(r.Context())
			g.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
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
	_ = nc.Close()
	for !line.PeerLeft() {
		runtime.Gosched()
	}
	s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: "ride-1", Content: notification.Content{Title: "x"}})
	if _, frames := fetch(t, s, c.Session, ""); !strings.Contains(frames, `"ride-1"`) {
		t.Errorf("the next poll gets %s, want what the poll before could not give", frames)
	}
}
