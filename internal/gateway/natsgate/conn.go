package natsgate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/bus"
)

// conn is a client's connection, and the connection to the server that was opened for it.
type conn struct {
	client net.Conn
	server atomic.Pointer[net.Conn]
	who    atomic.Pointer[who]
	once   sync.Once
}

// end closes both sides.
func (c *conn) end() {
	c.once.Do(func() {
		_ = c.client.Close() // wakes the goroutine that still reads it
		if s := c.server.Load(); s != nil {
			_ = (*s).Close()
		}
	})
}

// serve serves one connection until it ends.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	c := &conn{client: nc}
	defer c.end()
	if !s.join(c) {
		return
	}
	defer s.leave(c)
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return
	}
	client, cert, err := s.greet(ctx, nc)
	if err != nil {
		return
	}
	in := bufio.NewReaderSize(client, readRoom)
	w, hello, err := s.connect(ctx, in, cert)
	if err == nil && s.cfg.Hello != nil && !s.cfg.Hello(address(nc)) {
		err = errTooMany
	}
	if err != nil {
		s.refuse(client, err)
		return
	}
	server, user, password, left, err := s.cfg.Open(bus.Visitor{App: w.app, All: w.all, Addr: addressPort(nc), As: w.as})
	if err != nil {
		return
	}
	defer left()
	defer server.Close()
	c.server.Store(&server)
	c.who.Store(w)
	hello.User, hello.Password, hello.Token = user, password, ""
	out, err := introduce(server, hello)
	if err != nil || nc.SetDeadline(time.Time{}) != nil || !w.still(ctx, s.cfg.Access) {
		return
	}
	s.counts.opened.Add(1)
	if !w.expires.IsZero() {
		defer time.AfterFunc(time.Until(w.expires), c.end).Stop()
	}
	inbox, subs := inboxes+rand.Text()[:inboxChars]+".", newSubscriptions()
	var ended sync.WaitGroup
	ended.Go(func() {
		defer c.end()
		b := &back{in: out, out: bufio.NewWriterSize(client, writeRoom), inbox: inbox, refused: s.cfg.Refused, subs: subs}
		_ = b.run() // either side ends it
		if gone(b.out.Flush()) {
			_, _ = io.Copy(io.Discard, out) // until what the client sent before it hung up is forwarded
		}
	})
	v := &vet{
		in: in, out: bufio.NewWriterSize(server, writeRoom), prefix: prefix(w.app), who: w, refused: s.cfg.Refused, maxPayload: s.cfg.MaxPayload,
		inbox: inbox, subs: subs, publishes: s.cfg.PublishLimit, count: &s.counts.refused,
	}
	if v.run() == nil {
		ended.Wait() // the server has received the error, and sends the reason before it closes
	}
	c.end()
	ended.Wait()
}

// gone reports whether a write failed because the client has closed or reset its connection. Its last bytes can still be read.
func gone(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) }

// Room of a connection's buffers.
const (
	readRoom  = 4 << 10 // also the longest line in bytes that a client may send, as with the server
	writeRoom = 8 << 10
)

// inboxChars is the length of the random text that distinguishes a connection's inboxes: 80 bits.
const inboxChars = 16

// greet sends the server's INFO line and then begins TLS if it is configured.
func (s *Server) greet(ctx context.Context, nc net.Conn) (client net.Conn, cert string, err error) {
	if _, err := nc.Write(s.info); err != nil || s.cfg.TLS == nil {
		return nc, "", err
	}
	secured := tls.Server(nc, s.cfg.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", err
	}
	state := secured.ConnectionState()
	return secured, access.CertURI(&state), nil
}

var errGreeting = errors.New("a client must begin with CONNECT")

// connect reads a client's CONNECT and authenticates the client.
func (s *Server) connect(ctx context.Context, in *bufio.Reader, cert string) (*who, said, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxConnect {
			return nil, said{}, errGreeting
		}
	}
	verb, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r\n")), []byte(" "))
	if !bytes.EqualFold(verb, []byte("CONNECT")) {
		return nil, said{}, errGreeting
	}
	hello, err := readSaid(rest)
	if err != nil {
		return nil, said{}, err
	}
	w, err := identify(ctx, s.cfg.Access, hello, cert)
	return w, hello, err
}

// errTooMany is the error of limit_hellos, which counts NATS clients as it counts sessions.
var errTooMany = errors.New("too many hellos of this address: limit_hellos")

// refuse sends a client the reason of its refusal. If its credentials cannot be checked now, the connection is only closed, and the client
// reconnects.
func (s *Server) refuse(client net.Conn, err error) {
	s.counts.unknown.Add(1)
	s.cfg.Log.Debug("NATS client refused", "error", err)
	said := "Authorization Violation" // client libraries recognise errors by this text
	switch {
	case errors.Is(err, access.ErrUnavailable):
		return
	case errors.Is(err, errTooMany):
		said = "maximum connections exceeded"
	case errors.Is(err, errCertificate):
		said += ": " + errCertificate.Error()
	}
	_, _ = io.WriteString(client, "-ERR '"+said+"'\r\n") // the connection is closed in any case
}

// introduce sends the client's CONNECT to the server, and returns a reader of the server's further output.
func introduce(server net.Conn, hello said) (out *bufio.Reader, err error) {
	if err := server.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	out = bufio.NewReaderSize(server, backRoom)
	if _, err := out.ReadSlice('\n'); err != nil { // the server's INFO; the client has received ours
		return nil, fmt.Errorf("read the server's greeting: %w", err)
	}
	b, err := json.Marshal(hello)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(server, "CONNECT %s\r\n", b); err != nil {
		return nil, err
	}
	return out, server.SetDeadline(time.Time{})
}
