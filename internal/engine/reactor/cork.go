package reactor

import "sync"

// corkSize is the number of bytes that a corked connection collects before it sends them anyway: beyond it, a system call costs little more
// than copying.
const corkSize = 16 << 10

// cork collects the writes to a connection, so that many small frames are sent in one system call, and arrive together.
type cork struct {
	buf   []byte
	depth int
}

var corks = sync.Pool{New: func() any { return &cork{buf: make([]byte, 0, 1<<10)} }}

// Cork collects all writes from now on until Uncork, or up to 16 KB. Calls nest; each must be followed soon by Uncork, because writes of
// other goroutines are collected, too. While the handler's Data runs, its connection is corked anyway.
func (c *Conn) Cork() {
	c.mu.Lock()
	c.corkLocked()
	c.mu.Unlock()
}

func (c *Conn) corkLocked() {
	if c.cork == nil {
		c.cork, _ = corks.Get().(*cork)
	}
	c.cork.depth++
}

// Uncork undoes one Cork; the last one sends the collected bytes.
func (c *Conn) Uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uncorkLocked()
}

func (c *Conn) uncorkLocked() {
	k := c.cork
	if k.depth--; k.depth > 0 {
		return
	}
	c.cork = nil
	if len(k.buf) > 0 && c.state&dead == 0 {
		c.sendNow(k.buf, nil)
	}
	k.buf = k.buf[:0]
	corks.Put(k)
}

// collect keeps head and tail for later if the connection is corked and there is room. c.mu is held.
func (c *Conn) collect(head, tail []byte) bool {
	k, n := c.cork, len(head)+len(tail)
	if k == nil || c.out != nil {
		return false
	}
	if len(k.buf)+n > corkSize {
		c.release()
		if c.out != nil || c.state&dead != 0 || n > corkSize {
			return false
		}
	}
	k.buf = append(append(k.buf, head...), tail...)
	return true
}

// release sends the bytes collected so far. c.mu is held.
func (c *Conn) release() {
	if k := c.cork; k != nil && len(k.buf) > 0 {
		b := k.buf
		k.buf = b[:0] // before the write: if it fails, the connection ends and this function is called again
		c.sendNow(b, nil)
	}
}
