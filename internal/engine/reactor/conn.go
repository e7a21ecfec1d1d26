package reactor

import (
	"crypto/tls"
	"io"
	"net/netip"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/timerwheel"
)

// Conn is one connection. Its methods may be called from any goroutine and none of them blocks or calls the handler.
//
// The struct is what an idle connection costs, so what only busy connections need hangs off pointers.
type Conn struct {
	mu    sync.Mutex // never held while the handler runs
	loop  *loop
	out   *queue    // bytes that the socket has not accepted; nil: none
	cork  *cork     // bytes that wait for Uncork; nil: not corked
	tls   *tlsLayer // nil: plain
	sock  *sock     // goroutine driver only
	err   error     // why the connection ends; set once it is dead or closing
	timer timerwheel.Timer[*Conn]

	tickAt  int64 // when the handler's timer is due, by Reactor.now; 0: none
	limitAt int64 // when the reactor's own time limit ends, for the first byte or for closing; 0: none

	// Only the loop touches these.
	h     Handler
	in    []byte   // received bytes that the handler has not used; nil: none
	start *startup // until begin
	gone  func()   // called when the connection is closed; may be nil
	slot  int32    // index in the loop's table; -1: none
	gen   int32    // of that place

	nextWork *Conn  // under loop.mu
	work     uint32 // under loop.mu

	fd    int32
	mask  uint32 // what epoll watches for
	state state
}

// startup holds what a connection needs only until its loop has taken it over.
type startup struct {
	open     func(*Conn) (Handler, error)
	buffered []byte // bytes read from the peer before, in plain text
	by       int64  // when the first byte must have arrived, by Reactor.now; 0: no limit
}

// state is a set of flags under Conn.mu.
type state uint16

const (
	attached   state = 1 << iota // the poller watches it
	paused                       // the handler accepts no bytes at present
	refused                      // a write was refused: the handler waits for Drained
	closing                      // send the queue, then close; the only further callback is Closed
	halfClosed                   // nothing more will be written
	ended                        // the peer has sent its last byte
	dead                         // input and output are impossible; the loop is about to finish the connection
	finished                     // the handler was told
	silent                       // no byte has come yet
	stalled                      // set during a pause: there may be work when it ends
	deaf                         // the peer takes no more bytes; what it has sent is still passed on
	resuming                     // the work after a pause is posted: until it is done, nothing more is read, because new input must not grow behind held-back input
)

func newConn(l *loop) *Conn {
	c := &Conn{loop: l, fd: -1, slot: -1}
	c.timer.Owner = c
	return c
}

// RemoteAddr returns the peer's address, or the zero value after the connection has ended. It asks the system, so that the connection need
// not store the address.
func (c *Conn) RemoteAddr() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state&(dead|finished) != 0:
		return netip.AddrPort{}
	case c.sock != nil:
		return addrPort(c.sock.nc.RemoteAddr())
	}
	return peerAddr(c.fd)
}

// Patience returns, while the handler is being created, how long the peer may still take to send its first bytes; 0: no limit.
func (c *Conn) Patience() time.Duration {
	if c.start == nil || c.start.by == 0 {
		return 0
	}
	return max(time.Duration(c.start.by-c.loop.r.now()), time.Millisecond)
}

// TLS describes the TLS session; nil on a plain connection.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	s := c.tls.conn.ConnectionState()
	return &s
}

// Queued returns the number of bytes in the write queue.
func (c *Conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	if c.out != nil {
		n = c.out.n
	}
	if c.cork != nil {
		n += len(c.cork.buf)
	}
	return n
}

// Pause stops calls of Data until Resume. If Data itself calls Pause, it returns how many bytes it used; the rest is kept and passed again
// on Resume.
func (c *Conn) Pause() {
	c.mu.Lock()
	c.state |= paused | stalled
	c.mu.Unlock() // the poller is updated only if input arrives, because most pauses end before
}

// Resume ends a Pause.
func (c *Conn) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&paused == 0 {
		return
	}
	c.state &^= paused
	if c.state&(dead|stalled) == stalled {
		c.state |= resuming
		c.loop.post(c, workResume)
	}
}

// settle runs at the end of a turn: if a pause began in this turn and no input is held back, the connection is not stalled. c.mu is held.
func (c *Conn) settle() {
	if c.state&paused != 0 && len(c.in) == 0 && c.tls == nil && c.sock == nil {
		c.state &^= stalled
	}
}

// Unsent reports whether the socket has not accepted some bytes, so that Drained will follow.
func (c *Conn) Unsent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out != nil
}

// SetTimer schedules one call of the handler's Tick after d; a later call replaces an earlier one, 0 cancels it. Its precision is the
// wheel's tick (timerwheel.DefaultTick).
func (c *Conn) SetTimer(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&(dead|closing) != 0 {
		return
	}
	if c.tickAt = 0; d > 0 {
		c.tickAt = c.loop.r.now() + int64(d)
	}
	c.armTimer()
}

// Deaf reports that the peer takes no more bytes: it has closed or reset the connection. The handler still gets the bytes that it sent before; then
// Closed follows.
func (c *Conn) Deaf() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state&(deaf|dead) != 0
}

// cut notes why the peer takes no more bytes. It may have sent some before, with the acknowledgement of what it has received, so the
// connection ends only when they are read, or after five seconds if the handler pauses for so long. c.mu is held.
func (c *Conn) cut(err error) {
	switch {
	case c.state&(dead|deaf) != 0:
	case c.state&(closing|ended) != 0: // nothing is read any more
		c.die(err)
	default:
		c.state |= deaf
		c.err = err
		c.dropQueue()
		c.limitAt = c.loop.r.now() + int64(c.loop.r.linger)
		c.armTimer()
	}
}

// armTimer sets the wheel's timer to the earlier of the two deadlines. c.mu is held.
func (c *Conn) armTimer() {
	at := c.tickAt
	if c.limitAt != 0 && (at == 0 || c.limitAt < at) {
		at = c.limitAt
	}
	if at == 0 || c.state&finished != 0 {
		c.loop.wheel.Stop(&c.timer)
		return
	}
	c.loop.wheel.Set(&c.timer, time.Duration(at-c.loop.r.now()))
}

// deadline runs on the loop after the wheel's timer has fired.
func (c *Conn) deadline(now time.Time) {
	t := int64(now.Sub(c.loop.r.start))
	c.mu.Lock()
	if c.state&finished != 0 {
		c.mu.Unlock()
		return
	}
	if c.limitAt != 0 && c.limitAt <= t {
		c.mu.Unlock()
		c.finish(ErrFirstByte) // if the connection is closing, its first reason stays
		return
	}
	ticks := c.tickAt != 0 && c.tickAt <= t && c.state&(dead|closing) == 0
	if ticks {
		c.tickAt = 0
	}
	c.armTimer()
	c.mu.Unlock()
	if ticks {
		c.h.Tick(now)
	}
}

// CloseAfterFlush sends the queued bytes, ends the connection towards the peer, and closes it when the peer has done the same, or after
// five seconds. From now on, writes are refused and input is discarded. Closed(err) follows.
func (c *Conn) CloseAfterFlush(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&(dead|closing) != 0 {
		return
	}
	if err == nil {
		err = io.EOF
	}
	if c.tls != nil {
		_ = c.tls.conn.CloseWrite() // sends close_notify; if that fails, the connection is dead already
		if c.state&dead != 0 {
			return
		}
	}
	if c.release(); c.state&deaf != 0 {
		c.die(err)
	}
	if c.state&dead != 0 {
		return
	}
	c.beginClosing(err)
	if c.out == nil {
		c.halfClose()
	}
	c.watch()
}

// beginClosing sets the closing state. c.mu is held.
func (c *Conn) beginClosing(err error) {
	c.state |= closing
	c.err = err
	c.tickAt, c.limitAt = 0, c.loop.r.now()+int64(c.loop.r.linger)
	c.armTimer()
}

// halfClose ends the sending side (FIN) after the last byte. If the peer has sent something that was not read, a full close could make the
// kernel discard bytes in flight. c.mu is held.
func (c *Conn) halfClose() {
	if c.state&halfClosed != 0 {
		return
	}
	c.state |= halfClosed
	c.shutdownWrite()
	if c.state&ended != 0 {
		c.die(nil)
	}
}

// Abort closes the connection at once and discards its queue. Closed(err) follows.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = io.EOF
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.die(err)
}

// die marks the connection as dead and makes the loop finish it. c.mu is held.
func (c *Conn) die(err error) {
	if c.state&dead == 0 {
		c.release()
	}
	if c.state&dead != 0 {
		return
	}
	c.state |= dead
	if c.state&closing == 0 || c.err == nil {
		c.err = err
	}
	c.dropQueue()
	c.loop.post(c, workClose)
}

// finish closes the descriptor and calls the handler's Closed, once. It runs on the loop; err is the reason if none is known yet.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	if c.state&finished != 0 {
		c.mu.Unlock()
		return
	}
	if c.err == nil {
		c.err = err
	}
	if c.err == nil {
		c.err = io.EOF
	}
	c.state |= dead | finished
	c.dropQueue()
	c.loop.wheel.Stop(&c.timer)
	c.mu.Unlock()

	c.loop.poll.detach(c)
	if c.slot >= 0 {
		c.loop.remove(c)
	}
	c.in, c.start = nil, nil
	left(c.gone)
	c.loop.r.conns.Add(-1)
	if h := c.h; h != nil {
		c.h = nil
		h.Closed(c.err)
	}
}

// enter acquires the right to run the handler. With epoll it does nothing, because only the loop runs the handler.
func (c *Conn) enter() {
	if c.sock != nil {
		c.sock.serial.Lock()
	}
}

func (c *Conn) leave() {
	if c.sock != nil {
		c.sock.serial.Unlock()
	}
}

// wantsInput and wantsOutput report which events the poller must watch for. c.mu is held.
func (c *Conn) wantsInput() bool {
	return c.state&(ended|dead) == 0 && (c.state&paused == 0 || c.state&closing != 0)
}

func (c *Conn) wantsOutput() bool { return c.out != nil && c.state&dead == 0 }

// watch updates the poller after wantsInput or wantsOutput may have changed. c.mu is held.
func (c *Conn) watch() {
	if c.state&(attached|dead) != attached {
		return
	}
	if err := c.loop.poll.update(c); err != nil {
		c.die(err)
	}
}

// Later has f called on the loop once the loop has passed on all input that its connections have, or after a few rounds of it. f must not wait for
// anything. Only Handler.Data may call Later. False: this driver knows no such moment.
func (c *Conn) Later(f func()) bool {
	if c.sock != nil {
		return false
	}
	c.loop.later = append(c.loop.later, f)
	return true
}
