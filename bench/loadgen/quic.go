package loadgen

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
	"golang.org/x/sys/unix"
)

// QUIC is WebTransport with frames in JSON. It needs a server with TLS.
const QUIC = "quic"

// quicSide is the QUIC side of this process: one socket for all connections.
var quicSide = sync.OnceValues(func() (*quic.Transport, error) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	return &quic.Transport{Conn: pc}, err
})

// dialQUIC opens a session, and returns a socket for the reactor, whose bytes are those of the session's stream.
func dialQUIC(ctx context.Context, addr string) (net.Conn, error) {
	tr, err := quicSide()
	if err != nil {
		return nil, err
	}
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	wt := webtransport.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}, MinVersion: tls.VersionTLS13},
		QUICConfig:      &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true, MaxIdleTimeout: 5 * time.Minute, KeepAlivePeriod: time.Minute},
		DialAddr: func(ctx context.Context, _ string, conf *tls.Config, qc *quic.Config) (*quic.Conn, error) {
			return tr.Dial(ctx, to, conf, qc)
		},
	}
	_, sess, err := wt.Dial(ctx, "https://"+addr+"/v1/transport", nil)
	if err != nil {
		return nil, err
	}
	str, err := sess.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return bridge(sess, str)
}

// bridge copies a stream to a pair of sockets: the reactor takes over descriptors alone. Its cost is the load generator's.
func bridge(sess *webtransport.Session, str *webtransport.Stream) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "bridge")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	ours := ends[1]
	go func() {
		_, _ = io.Copy(str, ours)
		_ = sess.CloseWithError(0, "")
	}()
	go func() {
		_, _ = io.Copy(ours, str)
		ours.Close()
	}()
	return ends[0], nil
}

// quicWire is the client side of frames with their lengths before them.
type quicWire struct{ webSocketWire }

func (w *quicWire) begin() []byte { return appendSized(nil, w.hello) }

func appendSized(dst, frame []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(frame))), frame...)
}

func (w *quicWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	for {
		n, head := binary.Uvarint(b[used:])
		if head < 0 || n > maxPayload {
			return used, nil, errors.New("the length of a frame is none")
		}
		if head == 0 || uint64(len(b)-used-head) < n {
			return used, nil, nil
		}
		frame := b[used+head : used+head+int(n)]
		used += head + int(n)
		if n == 0 {
			continue
		}
		if err := s.frame(frame); err != nil {
			return used, nil, fmt.Errorf("over QUIC: %w", err)
		}
	}
}

func (w *quicWire) ack(dst []byte, ids [][]byte) []byte { return appendSized(dst, ackJSON(ids)) }

func (w *quicWire) say(dst, frame []byte) []byte { return appendSized(dst, frame) }
