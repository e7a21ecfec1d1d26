// Package quic lets the client of package godwit listen over QUIC: the session outlives a change of networks.
//
//	c, err := godwit.New("quic://godwit.example.org:8443", quic.Enable())
//
// Calls such as publishes go to the same host and port over HTTPS. A session uses a WebSocket there if nothing answers over UDP within a
// second, or QUIC fails otherwise. Where it has failed QUIC rests for 5 minutes, doubling to an hour, or until the network changes.
package quic

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	godwit "godwit.dev/godwit/clients/go"
)

// Enable makes [godwit.New] accept URLs like "quic://godwit.example.org:8443".
func Enable() godwit.Option { return godwit.WithTransport("quic", Dial) }

const (
	blockedAfter = time.Second      // without any answer over UDP
	keepAlive    = 20 * time.Second // shorter than the 30 s after which many routers forget a silent UDP client
	idleTimeout  = 90 * time.Second // without any packet of the server
	openTime     = 5 * time.Second  // for the session's begin
	finishTime   = time.Second      // for the server's close after the client's end of the stream
	moveTime     = 3 * time.Second  // for the server's answer at a new address

	packetBytes = 1200 // of UDP's payload, which each network must carry (RFC 9000, section 14)

	// maxFrame limits one frame from the server, in bytes, as for the other transports.
	maxFrame = 8 << 20
	maxKept  = 64 << 10 // the largest buffer that is kept
)

// link is a session over WebTransport.
type link struct {
	conn *quic.Conn
	sess *webtransport.Session
	str  *webtransport.Stream
	in   *bufio.Reader
	buf  []byte // the frame that was received last
	out  []byte // what is sent next, under sending
	stop context.CancelFunc

	sending sync.Mutex
	moving  sync.Mutex
	roads   [2]*road // one is in use
	on      int      // which
	path    *quic.Path
}

// road is a socket below QUIC's transport.
type road struct {
	socket *socket
	tr     *quic.Transport
}

func newRoad() (*road, error) {
	s, err := newSocket()
	if err != nil {
		return nil, err
	}
	return &road{socket: s, tr: &quic.Transport{Conn: s, ConnectionIDGenerator: noIDs{}}}, nil
}

// noIDs are the connection IDs of a client whose socket has one connection: empty. A server of quic-go gives none of a client's IDs back after a
// move, and takes no further move once it has used all; empty ones are not used up.
type noIDs struct{}

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (noIDs) GenerateConnectionID() (quic.ConnectionID, error) { return quic.ConnectionID{}, nil }

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (noIDs) ConnectionIDLen() int { return 0 }

// close closes the socket. The connections over it have ended.
func (r *road) close() {
	if r != nil {
		_ = r.tr.Close()
		_ = r.socket.Close()
	}
}

// Dial opens a link. It is the package's [godwit.Transport].
func Dial(ctx context.Context, o godwit.LinkOptions) (godwit.Link, error) {
	addr, err := net.ResolveUDPAddr("udp", o.URL.Host)
	if err != nil {
		return nil, err
	}
	first, err := newRoad()
	if err != nil {
		return nil, err
	}
	l := &link{roads: [2]*road{first}}
	if err := l.open(ctx, addr, o); err != nil {
		l.Abort()
		return nil, err
	}
	var watched context.Context
	watched, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(l.conn.Context(), func() { l.stop(); l.closeRoads() })
	go watch(watched, addr, func() { _ = l.Move(watched) }) // if it fails, the connection ends or the next look moves it
	return l, nil
}

func (l *link) open(ctx context.Context, addr *net.UDPAddr, o godwit.LinkOptions) error {
	conf := &tls.Config{RootCAs: o.Roots, ServerName: o.URL.Hostname(), MinVersion: tls.VersionTLS13, NextProtos: []string{http3.NextProtoH3}}
	ctx, stop := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("no session began over QUIC in %s", openTime))
	defer stop()
	first, cancel := context.WithTimeoutCause(ctx, blockedAfter, godwit.ErrBlocked)
	defer cancel()
	var err error
	l.conn, err = l.roads[0].tr.Dial(first, addr, conf, &quic.Config{
		MaxIdleTimeout: idleTimeout, KeepAlivePeriod: keepAlive, EnableDatagrams: true, EnableStreamResetPartialDelivery: true,
		InitialPacketSize: packetBytes, DisablePathMTUDiscovery: true, // this network or the next may take no more
	})
	if err != nil {
		return err
	}
	var wt webtransport.Transport
	cc, err := wt.NewClientConn(l.conn)
	if err != nil {
		return err
	}
	resp, sess, err := cc.Dial(ctx, "https://"+o.URL.Host+"/v1/transport?protocol=godwit.v1.proto", nil)
	if err != nil {
		return answered(resp, err)
	}
	l.sess = sess
	if l.str, err = sess.OpenStreamSync(ctx); err != nil {
		return err
	}
	l.in = bufio.NewReader(l.str)
	return nil
}

// answered returns the error for an answer in place of a session. A client error will not go away.
func answered(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		return &godwit.LinkClosedError{Code: 1008, Reason: fmt.Sprintf("status %d", resp.StatusCode)}
	}
	return err
}

// Send implements [godwit.Link].
func (l *link) Send(frames ...[]byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.out = l.out[:0]
	for _, f := range frames {
		l.out = append(binary.AppendUvarint(l.out, uint64(len(f))), f...)
	}
	_, err := l.str.Write(l.out)
	if cap(l.out) > maxKept {
		l.out = nil
	}
	return err
}

// Receive implements [godwit.Link].
func (l *link) Receive() ([]byte, error) {
	for {
		n, err := binary.ReadUvarint(l.in)
		switch {
		case err != nil:
			return nil, l.lost(err)
		case n > maxFrame:
			return nil, fmt.Errorf("a frame of %d bytes came; at most %d are accepted", n, maxFrame)
		case n == 0:
			continue // a sign of life
		}
		if uint64(cap(l.buf)) < n || cap(l.buf) > maxKept {
			l.buf = make([]byte, n)
		}
		l.buf = l.buf[:n]
		if _, err = io.ReadFull(l.in, l.buf); err != nil {
			return nil, l.lost(err)
		}
		return l.buf, nil
	}
}

// lost returns the reason for the end of the stream. After the server's end of it the client ends its own, and the session's close tells why.
func (l *link) lost(err error) error {
	if errors.Is(err, io.EOF) {
		l.sending.Lock()
		_ = l.str.Close() // it may be closed already
		l.sending.Unlock()
		late := time.AfterFunc(finishTime, func() { _ = l.sess.CloseWithError(0, "") })
		defer late.Stop()
		_, err = l.sess.AcceptStream(l.conn.Context()) // the server opens none: its error is the close
	}
	var closed *webtransport.SessionError
	if errors.As(err, &closed) && closed.Remote {
		return &godwit.LinkClosedError{Code: int(closed.ErrorCode), Reason: closed.Message}
	}
	return err
}

// Finish implements [godwit.Link].
func (l *link) Finish() {
	l.sending.Lock()
	_ = l.str.Close() // it may be closed already
	l.sending.Unlock()
	select {
	case <-l.sess.Context().Done():
	case <-time.After(finishTime):
	}
	l.Abort()
}

// Abort implements [godwit.Link].
func (l *link) Abort() {
	if l.conn == nil {
		l.closeRoads()
		return
	}
	_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // it may be closed already
	if l.stop == nil {
		l.closeRoads()
	}
}

func (l *link) closeRoads() {
	l.moving.Lock()
	defer l.moving.Unlock()
	for _, r := range l.roads {
		r.close()
	}
}

// Move implements [godwit.Link]: it opens a new socket, proves its address to the server and goes on there. The server switches at the client's
// next packet, so an empty frame follows.
func (l *link) Move(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, moveTime, fmt.Errorf("the server did not answer at the new address in %s", moveTime))
	defer cancel()
	l.moving.Lock()
	defer l.moving.Unlock()
	if l.conn.Context().Err() != nil {
		return fmt.Errorf("move the session to another network: %w", context.Cause(l.conn.Context()))
	}
	if err := l.move(ctx); err != nil {
		return fmt.Errorf("move the session to another network: %w", err)
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	_, err := l.str.Write([]byte{0})
	return err
}

func (l *link) move(ctx context.Context) error {
	other := 1 - l.on
	if l.roads[other] == nil {
		var err error
		if l.roads[other], err = newRoad(); err != nil {
			return err
		}
	} else if err := l.roads[other].socket.swap(); err != nil {
		return err
	}
	path, err := l.conn.AddPath(l.roads[other].tr)
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		_ = path.Close()
		return err
	}
	if err := path.Switch(); err != nil {
		return err
	}
	if l.path != nil {
		_ = l.path.Close() // whose connection ID the server gets back
	}
	l.path, l.on = path, other
	return nil
}
