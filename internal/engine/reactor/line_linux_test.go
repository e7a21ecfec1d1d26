package reactor

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/narrow"
)

func TestBytesThatAPeerDoesNotTakeAreNotAcknowledged(t *testing.T) {
	lines := make(chan *Line, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := LineOf(r.Context())
		_, _ = w.Write(bytes.Repeat([]byte("x"), 32<<10)) // into the kernel's buffer
		_ = http.NewResponseController(w).Flush()
		lines <- line
		<-r.Context().Done()
	}))
	srv.Listener = Listener(srv.Listener)
	srv.Config.ConnContext = ConnContext
	srv.Start()
	defer srv.Close()
	nc, err := narrow.Dialer().Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line := <-lines
	before, all, ok := line.Acked()
	if all || !ok {
		t.Fatalf("all %t of an answer that nobody reads is acknowledged, open %t", all, ok)
	}
	go io.Copy(io.Discard, nc)
	eventually.True(t, "all is acknowledged once it is read", func() bool {
		_, all, _ := line.Acked()
		return all
	})
	if after, _, _ := line.Acked(); after == before {
		t.Error("the count has not changed")
	}
}

func TestBrokenConnectionsAreToldFromClosedOnes(t *testing.T) {
	for _, broken := range []bool{true, false} {
		lines := make(chan *Line, 1)
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lines <- LineOf(r.Context())
			_, _ = io.WriteString(w, "answer")
		}))
		closed := make(chan struct{})
		srv.Listener = Listener(srv.Listener)
		srv.Config.ConnContext = ConnContext
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(closed)
			}
		}
		srv.Start()
		nc, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line := <-lines
		if !broken {
			if _, err := nc.Read(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
		} else {
			eventually.True(t, "the answer is there", func() bool {
				_, all, _ := line.Acked()
				count, _, _ := line.Acked()
				return all && count > 1
			})
		}
		_ = nc.Close() // closing with unread input resets the connection
		<-closed
		if line.Reset() != broken {
			t.Errorf("a connection with an unread answer %t: reset %t", broken, line.Reset())
		}
		srv.Close()
	}
}
