package reactor

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
)

// TestAnAnswerToAPeerThatHadLeftIsLost: the peer closes its connection in order before the answer is written, so the server sees an end of
// input and no reset.
func TestAnAnswerToAPeerThatHadLeftIsLost(t *testing.T) {
	lines := make(chan *Line)
	closed := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := LineOf(r.Context())
		if line.PeerLeft() || line.Reset() {
			t.Error("the peer has left before it did")
		}
		lines <- line
		<-lines
		_, _ = io.WriteString(w, "answer")
	}))
	srv.Listener = Listener(srv.Listener)
	srv.Config.ConnContext = ConnContext
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(closed)
		}
	}
	srv.Start()
	defer srv.Close()
	nc, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line := <-lines
	_ = nc.Close()
	eventually.True(t, "the peer has left", line.PeerLeft)
	if line.Reset() {
		t.Error("an answer is lost before it was written")
	}
	lines <- line
	<-closed
	if !line.Reset() {
		t.Error("the answer to a peer that had left does not count as lost")
	}
}
