package pollgate

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/testkit/narrow"
)

// TestReadAnswerSurvivesALaterUnreadOne: the client reads an answer, requests something else over the same connection, and does not read
// that second answer.
func TestReadAnswerSurvivesALaterUnreadOne(t *testing.T) {
	const first, second = "first", "second"
	sent := make(chan *answer, 2)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{}
		a.sendTo(r)
		a.at = a.at.Add(-2 * lostAfter)
		body := []byte(first)
		if r.URL.Path == "/"+second {
			body = bytes.Repeat([]byte("x"), 32<<10) // into the kernel's buffer
		}
		_, _ = w.Write(body)
		_ = http.NewResponseController(w).Flush()
		sent <- a
	}))
	srv.Listener = reactor.Listener(srv.Listener)
	srv.Config.ConnContext = reactor.ConnContext
	srv.Start()
	defer srv.Close()
	nc, err := narrow.Dialer().DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ask := func(path string) *answer {
		if _, err := io.WriteString(nc, "GET /"+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return <-sent
	}
	read := ask(first)
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != first {
		t.Fatalf("the answer is %q, %v", b, err)
	}
	unread := ask(second)
	if read.lost(time.Now()) {
		t.Error("an answer counts as lost whose client has sent the next request over the connection")
	}
	if !unread.lost(time.Now()) {
		t.Error("an answer that nobody reads does not count as lost")
	}
}
