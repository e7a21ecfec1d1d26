package reactor

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// tlsLayer runs a TLS session over bytes instead of a connection. The loop feeds it the bytes from the socket; the session's output is
// written like all other output. Every call into crypto/tls after the handshake is made under Conn.mu. So the output that a read may cause
// (alerts, key updates) never races with writers, and Conn.mu is always locked before the locks of crypto/tls.
type tlsLayer struct {
	conn *tls.Conn
	c    *Conn
	fed  []byte // ciphertext the session has not read yet; borrowed from the loop's buffer while it runs
}

// tlsAgain reports to crypto/tls that there is no input now. Because the error is temporary, the session stays usable and keeps an
// incomplete record.
type tlsAgain struct{}

func (tlsAgain) Error() string   { return errAgain.Error() }
func (tlsAgain) Timeout() bool   { return true }
func (tlsAgain) Temporary() bool { return true }

var _ net.Error = tlsAgain{}

func (t *tlsLayer) read(b []byte) (int, error) {
	if len(t.fed) == 0 {
		return 0, tlsAgain{}
	}
	n := copy(b, t.fed)
	t.fed = t.fed[n:]
	return n, nil
}

// write is called by crypto/tls, hence with c.mu held. The session reuses b.
func (t *tlsLayer) write(b []byte) (int, error) {
	if t.c.state&dead != 0 {
		return 0, net.ErrClosed
	}
	t.c.send(b, nil)
	return len(b), nil
}

// decrypt feeds raw to the session and hands the handler the decrypted bytes. It runs on the loop. While the connection is paused, bytes
// stay in the session, or encrypted in fed.
func (c *Conn) decrypt(s *scratch, raw []byte) {
	t := c.tls
	if len(t.fed) > 0 { // kept by a pause
		t.fed = append(t.fed, raw...)
	} else {
		t.fed = raw
	}
	buf := s.decrypted()
	for {
		c.mu.Lock()
		if c.state&(dead|closing|paused) != 0 {
			c.mu.Unlock()
			break
		}
		n, err := t.conn.Read(buf[headroom:])
		c.mu.Unlock()
		if n > 0 {
			c.deliver(buf[:headroom+n])
		}
		if _, again := errors.AsType[tlsAgain](err); again {
			break
		}
		if err != nil {
			t.fed = nil
			c.inputEnded(err)
			return
		}
	}
	if len(t.fed) > 0 {
		t.fed = append([]byte(nil), t.fed...)
	} else {
		t.fed = nil
	}
}

// switchConn is the net.Conn below a TLS session: the real one until the connection is adopted, then the layer.
type switchConn struct {
	net.Conn
	layer atomic.Pointer[tlsLayer]
	taken atomic.Uint64 // bytes read
	reset atomic.Bool   // the peer has reset the connection, or left before it had received all bytes
	line  atomic.Pointer[Line]
}

// Close first notes whether the peer left before it had received all bytes: the kernel knows this only while the
// connection is open.
func (s *switchConn) Close() error {
	if l := s.line.Load(); l != nil && s.layer.Load() == nil && l.Reset() {
		s.reset.Store(true)
	}
	return s.Conn.Close()
}

// NetConn is what it wraps.
func (s *switchConn) NetConn() net.Conn { return s.Conn }

func (s *switchConn) Read(b []byte) (int, error) {
	if t := s.layer.Load(); t != nil {
		return t.read(b)
	}
	n, err := s.Conn.Read(b)
	s.taken.Add(uint64(n)) // a count of bytes
	s.noteReset(err)
	return n, err // the error of the wrapped net.Conn, unchanged
}

func (s *switchConn) Write(b []byte) (int, error) {
	if t := s.layer.Load(); t != nil {
		return t.write(b)
	}
	n, err := s.Conn.Write(b)
	s.noteReset(err)
	return n, err // the error of the wrapped net.Conn, unchanged
}

// The timer wheel sets the deadlines of the adopted connection; crypto/tls also sets one when it closes.

func (s *switchConn) SetDeadline(t time.Time) error { return s.deadline(s.Conn.SetDeadline, t) }

func (s *switchConn) SetReadDeadline(t time.Time) error { return s.deadline(s.Conn.SetReadDeadline, t) }

func (s *switchConn) SetWriteDeadline(t time.Time) error {
	return s.deadline(s.Conn.SetWriteDeadline, t)
}

func (s *switchConn) deadline(set func(time.Time) error, t time.Time) error {
	if s.layer.Load() != nil {
		return nil
	}
	return set(t)
}
