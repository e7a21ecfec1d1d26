package quicgate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
)

// TestClientsOfACrashedServerLearnAtOnceThatItHasForgottenThem closes the first server's socket, so that it can say nothing.
func TestClientsOfACrashedServerLearnAtOnceThatItHasForgottenThem(t *testing.T) {
	keys, err := quicgate.LoadKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Start(t, func(s *gatetest.Server) {
		cert, roots := certificate(t)
		serve := func(addr string) (at string, crash func()) {
			pc, err := net.ListenPacket("udp", addr)
			if err != nil {
				t.Fatal(err)
			}
			g := quicgate.New(quicgate.Config{Hub: s.Hub, Origins: s.Access, Handler: s.Mux, Log: s.Log, Keys: keys})
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = g.Serve(ctx, pc, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}) // its socket is closed
			}()
			return pc.LocalAddr().String(), func() {
				_ = pc.Close()
				cancel()
				<-served
				_ = g.Shutdown(ctx)
			}
		}
		addr, crash := serve("127.0.0.1:0")
		c, err := quic.DialAddr(t.Context(), addr, &tls.Config{RootCAs: roots, NextProtos: []string{"h3"}, MinVersion: tls.VersionTLS13}, &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.AcceptUniStream(patient(t)); err != nil { // the handshake is confirmed
			t.Fatal(err)
		}
		crash()
		_, crash = serve(addr)
		defer crash()
		str, err := c.OpenUniStream()
		if err == nil {
			_, err = str.Write([]byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.Context().Done():
		case <-patient(t).Done():
		}
		var reset *quic.StatelessResetError
		if err := context.Cause(c.Context()); !errors.As(err, &reset) {
			t.Errorf("the connection ended with %v, want a stateless reset", err)
		}
	})
}

func TestKeysOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	first, err := quicgate.LoadKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := quicgate.LoadKeys(dir)
	if err != nil || again != first || first.Reset == quic.StatelessResetKey(first.Token) {
		t.Errorf("the keys changed, or are one: %v", err)
	}
	name := filepath.Join(dir, quicgate.KeyFile)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can read the secret", info, err)
	}
	if err := os.WriteFile(name, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := quicgate.LoadKeys(dir); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a broken file: %v", err)
	}
}

func TestStalledClientIsBounded(t *testing.T) {
	s := start(t, quicgate.Config{Queue: 64 << 10})
	c := welcomed(t, s, "")
	if err := c.Send(t.Context(), `{"subscribe":{"topics":["news.>"]}}`); err == nil {
		err = c.Send(t.Context(), `{"ping":{}}`)
		if err != nil {
			t.Fatal(err)
		}
	}
	c.gets(t, "pong")
	for range 300 { // 10 MB, of which QUIC's flow control takes half a megabyte
		publish(t, s, "news.a", `"`+strings.Repeat("x", 32<<10)+`"`)
	}
	if n := doorOf(s).Waiting(); n > 128<<10 {
		t.Errorf("%d bytes wait for a client that does not read", n)
	}
	for { // it reads on, and is told what was dropped
		text, err := c.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, `"gap"`) {
			return
		}
	}
}

func TestServerIDBeginsConnectionIDs(t *testing.T) {
	id, err := quicgate.ServerIDs([]byte{0xab, 0xcd}).GenerateConnectionID()
	if b := id.Bytes(); err != nil || len(b) != 11 || b[0] != 10 || b[1] != 0xab || b[2] != 0xcd {
		t.Errorf("%x, %v", id.Bytes(), err)
	}
}

func TestAClientThatDoesNotReadGoesWhenMemoryIsShort(t *testing.T) {
	s := start(t, quicgate.Config{Queue: 256 << 10, Memory: 2*quicgate.LineBytes + 100<<10})
	stalled, reader := welcomed(t, s, "a"), welcomed(t, s, "b")
	subscribe(t, stalled, "many.>")
	subscribe(t, reader, "last")
	text := `"` + strings.Repeat("x", 32<<10) + `"`
	for ctx := patient(t); stalled.sess.Context().Err() == nil; {
		if ctx.Err() != nil {
			t.Fatalf("%d bytes wait, and no client was closed", doorOf(s).Waiting())
		}
		publish(t, s, "many.a", text)
	}
	publish(t, s, "last", `"here"`)
	reader.gets(t, "here")
	stalled.closes(t, 1013, "slow")
}

// subscribe has a client follow a topic.
func subscribe(t *testing.T, c *client, topic string) {
	t.Helper()
	for _, f := range []string{`{"subscribe":{"topics":["` + topic + `"]}}`, `{"ping":{}}`} {
		if err := c.Send(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	c.gets(t, "pong")
}

// A request is under way when the server stops. Its answer arrives whole.
func TestAnswersArriveAlthoughTheServerStops(t *testing.T) {
	s := start(t, quicgate.Patient())
	d := doorOf(s)
	begun, stopping := make(chan struct{}), make(chan struct{})
	text := strings.Repeat("x", 300<<10)
	s.Mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-stopping
		_, _ = io.WriteString(w, text)
	})
	tr := &http3.Transport{TLSClientConfig: d.dialer().TLSClientConfig}
	defer tr.Close()
	answered := make(chan error, 1)
	go func() {
		resp, err := (&http.Client{Transport: tr}).Get("https://" + d.addr + "/slow")
		if err == nil {
			var b []byte
			if b, err = io.ReadAll(resp.Body); err == nil && string(b) != text {
				err = fmt.Errorf("%d bytes came of %d", len(b), len(text))
			}
		}
		answered <- err
	}()
	<-begun
	var stopped sync.WaitGroup
	stopped.Go(d.stop)
	close(stopping)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	_ = tr.Close()
	stopped.Wait()
}
