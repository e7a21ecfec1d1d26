package quicgate

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// line is one QUIC connection: HTTP/3, and at most one session at a time.
type line struct {
	gate *Gateway
	conn *quic.Conn
	h3   *http3.RawServerConn

	running sync.WaitGroup

	mu       sync.Mutex
	requests int           // streams of HTTP/3 that are served
	served   time.Time     // when the last of them was
	session  *conn         // nil: none was opened
	opened   chan struct{} // closed when the session is ready, or the connection has ended; nil: no stream waits for it
	over     bool
	at       net.Addr // of the peer

	settled   chan struct{} // closed when the client's SETTINGS are read
	datagrams bool          // the client takes datagrams; set before settled is closed
}

// Types of streams (draft-ietf-webtrans-http3): the client's stream of a session begins with one, and the session's id.
const (
	bidiStream    = 0x41
	uniStream     = 0x54
	controlStream = 0x00 // of HTTP/3, as the next two
	qpackEncoder  = 0x02
	qpackDecoder  = 0x03
)

// Settings of HTTP/3 by which browsers know that a server has WebTransport: of the drafts 2 to 6, and of those since; and the most sessions of a connection,
// without which Safari opens none.
func webTransportSettings() map[uint64]uint64 {
	return map[uint64]uint64{0x2b603742: 1, 0x2c7cf000: 1, 0x14e9cd29: 1}
}

// Codes of errors of WebTransport's streams.
const (
	codeRejected = 0x3994bd84 // WT_BUFFERED_STREAM_REJECTED
	codeGone     = 0x170d7b68 // WT_SESSION_GONE
)

// begin opens HTTP/3 on the connection. False: it has ended.
func (l *line) begin() bool {
	var err error
	if l.h3, err = l.gate.h3.NewRawServerConn(l.conn); err != nil {
		_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeInternalError), "") // it is closed already
	}
	return err == nil
}

// accept serves streams until the connection ends.
func (l *line) accept() {
	defer l.gate.forget(l)
	defer l.running.Wait()
	l.running.Go(l.settle)
	for {
		str, err := l.conn.AcceptStream(context.Background())
		if err != nil {
			break
		}
		l.running.Go(func() { l.bidi(str) })
	}
	l.mu.Lock()
	l.over = true
	l.wake()
	l.mu.Unlock()
}

// bidi serves a stream in both directions: a request, or that of a session.
func (l *line) bidi(str *quic.Stream) {
	_ = str.SetReadDeadline(time.Now().Add(l.gate.cfg.patience)) // of an open stream
	kind, err := quicvarint.Peek(str)
	if err != nil {
		reject(str, codeRejected)
		return
	}
	if kind != bidiStream {
		l.request(str)
		return
	}
	id, err := sessionID(str)
	if err != nil {
		reject(str, codeRejected)
		return
	}
	s := l.sessionOf(id)
	if s == nil || !s.begin(str) {
		reject(str, codeRejected)
		return
	}
	_ = str.SetReadDeadline(time.Time{})
	l.running.Go(s.read) // with a small stack, since it lives long
}

// request serves a stream of HTTP/3.
func (l *line) request(str *quic.Stream) {
	l.mu.Lock()
	l.requests++
	l.mu.Unlock()
	l.h3.HandleRequestStream(str)
	l.mu.Lock()
	l.requests--
	l.served = time.Now()
	l.mu.Unlock()
	if l.gate.isStopping() && !l.hadSession() {
		l.quitSoon()
	}
}

// quitSoon closes a connection without a session, some time after the end of its last request: a close discards what the client has not got of
// the answer. While a request is served nothing happens: its end comes back here.
func (l *line) quitSoon() {
	l.mu.Lock()
	idle, rest := l.idle(), time.Until(l.served.Add(l.gate.cfg.linger))
	l.mu.Unlock()
	switch {
	case !idle:
	case rest > 0:
		time.AfterFunc(rest, l.quitSoon)
	default:
		l.quit()
	}
}

// settle accepts streams of the client's direction alone until the one with its SETTINGS has come. It does not wait for more: QPACK's are not used, and
// a session looks for others now and then, since a goroutine that waits is a tenth of what a connection costs.
func (l *line) settle() {
	for {
		str, err := l.conn.AcceptUniStream(context.Background())
		if err != nil || l.uni(str) {
			return
		}
	}
}

// uni serves a stream of the client's direction alone, and reports whether it was the control stream.
func (l *line) uni(str *quic.ReceiveStream) (control bool) {
	_ = str.SetReadDeadline(time.Now().Add(l.gate.cfg.patience)) // of an open stream
	kind, err := quicvarint.Peek(str)
	if err != nil {
		str.CancelRead(quic.StreamErrorCode(http3.ErrCodeStreamCreationError))
		return false
	}
	switch kind {
	case controlStream:
		l.control(str)
		return true
	case uniStream:
		id, err := sessionID(str)
		str.CancelRead(codeRejected)
		if s := l.sessionOf(id); err == nil && s != nil {
			s.refuse(codeSecondStream, secondStream)
		}
	case qpackEncoder, qpackDecoder:
	default: // without meaning, as browsers send some
		str.CancelRead(quic.StreamErrorCode(http3.ErrCodeStreamCreationError))
	}
	return false
}

// control reads the client's SETTINGS. What else comes on its control stream has no meaning for a server without push.
func (l *line) control(str *quic.ReceiveStream) {
	select {
	case <-l.settled:
		_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeStreamCreationError), "a second control stream")
		return
	default:
	}
	datagrams, err := readSettings(str)
	if err != nil {
		_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeMissingSettings), err.Error())
		return
	}
	l.datagrams = datagrams
	close(l.settled)
}

// look finds what a client of a session must not send, and nobody waits for: datagrams, and further streams of one direction.
func (l *line) look(s *conn) {
	if _, err := l.conn.ReceiveDatagram(ended); err == nil {
		s.refuse(codeDatagram, datagramRefused)
		return
	}
	if str, err := l.conn.AcceptUniStream(ended); err == nil {
		l.running.Go(func() { l.uni(str) })
	}
}

// ended is a context that has ended: what is asked with it does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// sessionID reads the head of a session's stream.
func sessionID(str interface{ Read([]byte) (int, error) }) (quic.StreamID, error) {
	r := quicvarint.NewReader(str)
	if _, err := quicvarint.Read(r); err != nil {
		return 0, err
	}
	id, err := quicvarint.Read(r)
	return quic.StreamID(id), err // a varint of QUIC has 62 bits
}

func reject(str *quic.Stream, code quic.StreamErrorCode) {
	str.CancelRead(code)
	str.CancelWrite(code)
}

// sessionOf returns the session with an id, and waits a while for it: its stream may overtake the request. Nil: there is none.
func (l *line) sessionOf(id quic.StreamID) *conn {
	l.mu.Lock()
	if !l.over && (l.session == nil || l.session.wt == nil) {
		if l.opened == nil {
			l.opened = make(chan struct{})
		}
		opened := l.opened
		l.mu.Unlock()
		late := time.NewTimer(l.gate.cfg.patience)
		defer late.Stop()
		select {
		case <-opened:
		case <-late.C:
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.session == nil || l.session.wt == nil || l.session.wt.StreamID() != id {
		return nil
	}
	return l.session
}

// reserve gives the connection's only place to a session that is about to be opened. False: it has one, or is over.
func (l *line) reserve(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && !l.session.finished() || l.over {
		return false
	}
	l.session = c
	return true
}

// ready lets streams reach the session; before the first can, it calls await.
func (l *line) ready(c *conn, wt *quic.Stream, await func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.wt = wt
	await()
	l.wake()
}

// wake lets those go on that wait for the session. l.mu is held.
func (l *line) wake() {
	if l.opened != nil {
		close(l.opened)
		l.opened = nil
	}
}

// moved counts a change of the peer's address. It is called by the session's reader alone.
func (l *line) moved() {
	if at := l.conn.RemoteAddr(); at != l.at {
		l.at = at
		l.gate.counts.moves.Inc()
	}
}

func (l *line) hadSession() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session != nil
}

// idle reports whether the connection serves neither a session nor a request. l.mu is held.
func (l *line) idle() bool {
	return l.requests == 0 && (l.session == nil || l.session.finished())
}

// quitIfIdle closes an idle connection.
func (l *line) quitIfIdle() {
	l.mu.Lock()
	idle := l.idle()
	l.mu.Unlock()
	if idle {
		l.quit()
	}
}

// quit closes the connection.
func (l *line) quit() {
	_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // it is open, or closed already
}

// route serves the requests of HTTP/3. net/http's deadlines have no like there, so they are set here.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) {
	ctl := http.NewResponseController(w)
	if r.Method == http.MethodConnect && r.URL.Path == Path {
		_ = ctl.SetReadDeadline(time.Time{}) // of an open stream
		g.ServeHTTP(w, r)
		return
	}
	now := time.Now()
	_ = ctl.SetReadDeadline(now.Add(requestTime))
	_ = ctl.SetWriteDeadline(now.Add(requestTime))
	g.cfg.Handler.ServeHTTP(w, r)
}

func (g *Gateway) isStopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopping
}
