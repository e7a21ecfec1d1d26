package loadgen

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
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
