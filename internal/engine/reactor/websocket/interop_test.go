package websocket_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"godwit.dev/godwit/internal/engine/reactor/websocket"
)

// server echoes messages with the package's parser and writer, over a hijacked connection.
type server struct {
	w io.Writer
}

func (s *server) send(b []byte) { _, _ = s.w.Write(b) }

func (s *server) Message(op websocket.Opcode, p []byte) bool {
	s.send(append(websocket.AppendHeader(nil, op, len(p)), p...))
	return true
}
func (s *server) Ping(p []byte) { s.send(websocket.AppendFrame(nil, websocket.Pong, p)) }
func (s *server) Pong([]byte)   {}
func (s *server) CloseFrame(code uint16, reason string) {
	s.send(websocket.AppendClose(nil, code, reason))
}

func echoServer(t *testing.T) (url string) {
	t.Helper()
	var wg sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nc, rw, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			t.Error(err)
			return
		}
		wg.Go(func() {
			defer nc.Close()
			serve(nc, rw.Reader)
		})
	}))
	t.Cleanup(func() { srv.Close(); wg.Wait() })
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// serve feeds the parser with reads of odd sizes.
func serve(nc net.Conn, r *bufio.Reader) {
	p, s := websocket.Parser{MaxMessage: 1 << 20}, &server{w: nc}
	var kept []byte
	buf := make([]byte, 1021)
	for {
		n, err := r.Read(buf)
		if err != nil {
			return
		}
		kept = append(kept, buf[:n]...)
		used, err := p.Feed(kept, s)
		var ce *websocket.CloseError
		if errors.As(err, &ce) {
			s.send(websocket.AppendClose(nil, ce.Code, ce.Reason))
			_, _ = io.Copy(io.Discard, r)
			return
		}
		kept = kept[used:]
	}
}

func TestInteroperatesWithCoder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, resp, err := coder.Dial(ctx, echoServer(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	c.SetReadLimit(2 << 20)
	for _, n := range []int{0, 1, 125, 126, 4096, 65535, 65536, 1 << 20} {
		for _, typ := range []coder.MessageType{coder.MessageText, coder.MessageBinary} {
			want := bytes.Repeat([]byte("é"), n/2)
			if err := c.Write(ctx, typ, want); err != nil {
				t.Fatal(err)
			}
			got, b, err := c.Read(ctx)
			if err != nil || got != typ || !bytes.Equal(b, want) {
				t.Fatalf("%d bytes: got %v with %d bytes, %v", n, got, len(b), err)
			}
		}
	}
	w, err := c.Writer(ctx, coder.MessageText) // a fragmented message
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := io.WriteString(w, strings.Repeat("fragment ", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, b, err := c.Read(ctx); err != nil || string(b) != strings.Repeat("fragment ", 10_000) {
		t.Fatalf("fragments came back as %d bytes, %v", len(b), err)
	}
	read := c.CloseRead(ctx) // the client handles the pong only while it reads the connection
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(coder.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
	<-read.Done()
}

func TestInteroperatesWithGobwas(t *testing.T) {
	url := echoServer(t)
	dial := func() net.Conn {
		nc, br, _, err := ws.Dial(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if br != nil {
			t.Fatal("bytes came before anything was sent")
		}
		t.Cleanup(func() { nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
		return nc
	}
	nc := dial()
	for _, n := range []int{0, 10, 200, 70_000} {
		want := bytes.Repeat([]byte{0xff}, n)
		if err := wsutil.WriteClientBinary(nc, want); err != nil {
			t.Fatal(err)
		}
		got, op, err := wsutil.ReadServerData(nc)
		if err != nil || op != ws.OpBinary || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %v with %d bytes, %v", n, op, len(got), err)
		}
	}
	for name, bad := range map[string]struct {
		send func(nc net.Conn) error
		code ws.StatusCode
	}{
		"too long":      {func(nc net.Conn) error { return wsutil.WriteClientBinary(nc, make([]byte, 1<<20+1)) }, ws.StatusMessageTooBig},
		"not UTF-8":     {func(nc net.Conn) error { return wsutil.WriteClientText(nc, []byte{0xff}) }, ws.StatusInvalidFramePayloadData},
		"not masked":    {func(nc net.Conn) error { return wsutil.WriteServerText(nc, []byte("x")) }, ws.StatusProtocolError},
		"reserved bits": {func(nc net.Conn) error { return ws.WriteFrame(nc, withRsv()) }, ws.StatusProtocolError},
		"ordinary end": {func(nc net.Conn) error {
			return wsutil.WriteClientMessage(nc, ws.OpClose, ws.NewCloseFrameBody(4001, "x"))
		}, 4001},
	} {
		t.Run(name, func(t *testing.T) {
			nc := dial()
			var wg sync.WaitGroup
			wg.Go(func() { _ = bad.send(nc) }) // the server may answer before it has read all
			_, _, err := wsutil.ReadServerData(nc)
			var closed wsutil.ClosedError
			if !errors.As(err, &closed) || closed.Code != bad.code {
				t.Errorf("the connection ended with %v, want code %d", err, bad.code)
			}
			nc.Close()
			wg.Wait()
		})
	}
}

func withRsv() ws.Frame {
	f := ws.MaskFrame(ws.NewTextFrame([]byte("x")))
	f.Header.Rsv = 4
	return f
}
