package loadgen

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

func TestAPublisherThatWasIdleTooLongConnectsAnew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := reactor.New(reactor.Config{Loops: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	again, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		first, err := l.Accept()
		if err != nil {
			return
		}
		first.Close() // as a server closes a connection that stays silent
		second, err := l.Accept()
		if err != nil {
			return
		}
		close(again)
		answerPublishes(second)
	}()
	p, err := NewPublishers(t.Context(), r, PublishConfig{
		Targets: []Target{{HTTP: l.Addr().String()}}, Via: ViaHTTP, Publishers: 1, Prefix: "r-", Recipients: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-again
	done, err := p.Run(t.Context(), 100, 50*time.Millisecond)
	if err != nil || done.Failed != 0 || done.Unsent != 0 || done.Accepted != 5 {
		t.Errorf("published %+v, %v; want 5 accepted and nothing lost", done, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

func TestAcknowledgementsOverSSEFindANewConnectionWhenTheirsWereIdleTooLong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := reactor.New(reactor.Config{Loops: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	arrived, served := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(served)
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n < posters {
				c.Close() // as a server closes a connection that stays silent
				continue
			}
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				b, _ := io.ReadAll(req.Body)
				arrived <- string(b)
			}
			c.Close()
		}
	}()
	failed := make(chan error, posters)
	p, err := newPoster(t.Context(), &dialer{r: r}, Target{HTTP: l.Addr().String()}, func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	for open := posters; open > 0; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		open = p.open
		p.mu.Unlock()
	}
	if len(failed) > 0 {
		t.Errorf("a connection without requests: %v", <-failed)
	}
	p.ack("s1", [][]byte{[]byte("n1")})
	if got := <-arrived; !strings.Contains(got, `"session":"s1"`) || !strings.Contains(got, "n1") {
		t.Errorf("posted %s", got)
	}
	l.Close()
	<-served
}

// answerPublishes answers every request on a connection until it ends.
func answerPublishes(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		if _, err := io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return
		}
	}
}

func TestAPublisherSpendsTheWindowOfItsConnectionOnContentsAlone(t *testing.T) {
	c := content{path: "/godwit.v1.Publisher/Publish", bytes: make([]byte, 1536), copies: 1}
	r := grpcRequest(target, c)
	p := newGRPCPub()
	for n := range 10_000 {
		if !p.admit(r) {
			t.Fatalf("after %d requests, each of which the server has given back, there is no room", n)
		}
		p.http.sendWindow += int64(grpcMessageHead + len(c.bytes)) // the server returns the credit after it has read the request
	}
	if p.http.sendWindow != h2DefaultWindow {
		t.Errorf("the window is %d, want %d", p.http.sendWindow, h2DefaultWindow)
	}
}
