package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"godwit.dev/godwit/api/godwitpb"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

// heartbeat is long enough that no session is probed while it is measured.
const heartbeat = 24 * time.Hour

// dialers is how many sessions are opened at a time.
const dialers = 32

// hold opens sessions, says so, and keeps them until its input ends. A session is a bare socket here: no goroutine,
// no buffer, so that thousands of them do not disturb the machine that is measured.
func hold(ctx context.Context, o *options) error {
	open := map[string]func(net.Conn, string) error{"ws": openWebSocket, "grpc": openGRPC}[o.load]
	if open == nil {
		return fmt.Errorf("no transport %q", o.load)
	}
	conns := make([]net.Conn, o.sessions)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(dialers)
	for i := range conns {
		g.Go(func() error {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", o.addr)
			if err != nil {
				return err
			}
			conns[i] = conn
			conn.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // the reads that follow would fail
			if err := open(conn, fmt.Sprintf("idle-%d-%d", os.Getpid(), i)); err != nil {
				return fmt.Errorf("session %d: %w", i, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	for _, c := range conns {
		c.Close()
	}
	return err
}

func openWebSocket(conn net.Conn, recipient string) error {
	_, err := fmt.Fprintf(conn, "GET /v1/connect HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: godwit.v1.json\r\n\r\n", conn.RemoteAddr())
	if err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade: %s", resp.Status)
	}
	hello := fmt.Appendf(nil, `{"hello":{"app":"demo","recipient":%q,"heartbeat":"%d"}}`, recipient, int(heartbeat.Seconds()))
	frame := []byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0} // masked with zeros
	if _, err := conn.Write(append(frame, hello...)); err != nil {
		return err
	}
	return wantWelcome(r)
}

// wantWelcome reads one short text frame.
func wantWelcome(r *bufio.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := uint16(head[1])
	if n == 126 {
		if err := binary.Read(r, binary.BigEndian, &n); err != nil {
			return err
		}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if !bytes.HasPrefix(body, []byte(`{"welcome":`)) {
		return fmt.Errorf("no welcome but %s", body)
	}
	return nil
}

func openGRPC(conn net.Conn, recipient string) error {
	hello, err := proto.Marshal(&godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Hello{Hello: &godwitpb.Hello{
		App: "demo", Recipient: recipient, HeartbeatMs: heartbeat.Milliseconds(),
	}}})
	if err != nil {
		return err
	}
	var out, fields bytes.Buffer
	out.WriteString(http2.ClientPreface)
	h := hpack.NewEncoder(&fields)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/godwit.v1.Client/Connect"},
		{":authority", "localhost"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		if err := h.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	w := http2.NewFramer(&out, nil)
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(hello))), hello...)
	for _, err := range []error{
		w.WriteSettings(), w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields.Bytes(), EndHeaders: true}),
		w.WriteData(1, false, message),
	} {
		if err != nil {
			return err
		}
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		return err
	}
	return awaitData(conn)
}

// awaitData reads until the first DATA frame, which carries the welcome.
func awaitData(conn net.Conn) error {
	f := http2.NewFramer(conn, conn)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := f.WriteSettingsAck(); err != nil {
					return err
				}
			}
		case *http2.DataFrame:
			if len(frame.Data()) == 0 || frame.StreamEnded() {
				return fmt.Errorf("the stream ended")
			}
			return nil
		case *http2.GoAwayFrame:
			return fmt.Errorf("goaway: %s", frame.ErrCode)
		case *http2.RSTStreamFrame:
			return fmt.Errorf("reset: %s", frame.ErrCode)
		}
	}
}
