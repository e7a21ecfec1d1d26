package pollgate

import (
	"net/http"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
)

const (
	// ackedWithin is the time after which the answer's connection is checked for the TCP acknowledgement of the client. Until then the poll
	// itself was the last sign of life.
	ackedWithin = 2 * time.Second
	// lostAfter is the time after which an unacknowledged answer counts as lost, for a client that does not name answers.
	lostAfter = time.Second
)

// polled is one polled session. Its answers are numbered, and the last one is kept until a poll names it, since an answer may be lost on
// its way and nothing else shows that: most frames are not sent again by themselves.
type polled struct {
	client *gateway.PostingClient
	ended  bool // the last sweep found the session ended; guarded by Gateway.mu

	mu     sync.Mutex
	over   chan struct{} // closed when a newer poll takes over
	number uint64        // number of the last answer with frames
	kept   *answer       // the last answer; nil: the client has it
}

// answer is the answer to a poll.
type answer struct {
	number uint64
	items  []gateway.Item
	held   int64 // bytes of this answer in the count of all waiting bytes
	bye    bool  // the session ended with this answer

	line   *reactor.Line // the connection of the poll; nil: unknown
	shared bool          // by streams of HTTP/2
	taken  uint64        // bytes received over line before the answer was sent
	at     time.Time     // when it was sent
	cut    bool          // the poll's connection ended before the answer was sent
	again  bool          // it was sent before
}

// sendTo records the connection on which the answer is sent.
func (a *answer) sendTo(r *http.Request) {
	a.line, a.shared, a.at, a.cut = reactor.LineOf(r.Context()), r.ProtoMajor > 1, time.Now(), false
	if a.line != nil {
		a.taken = a.line.Taken()
	}
}

// heardSince reports whether the client has sent bytes over the connection since the answer. Over HTTP/1.1 this shows that it has read the
// answer: unacknowledged bytes or a reset then belong to a later answer.
func (a *answer) heardSince() bool { return a.line.Taken() != a.taken }

// take ends an older poll of the session. It returns a channel that a newer poll closes.
func (c *polled) take() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		close(c.over)
	}
	c.over = make(chan struct{})
	return c.over
}

// settle checks whether the client has received the last answer. If not, it returns that answer to be sent again. ended: the client has
// received it, and the session ended with it.
func (c *polled) settle(r *http.Request, named bool, had uint64) (again *answer, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.kept
	switch {
	case last == nil:
		return nil, false
	case named && had < last.number, !named && !last.again && last.lost(time.Now()):
		a := *last
		a.again = true
		a.sendTo(r)
		c.kept = &a
		return &a, false
	}
	c.dropLocked()
	return nil, last.bye
}

// lost reports whether an answer was probably not read. A client may also break a connection off after it has read enough, as clients do
// that stop at the end of the JSON. So a client that names no answers gets an answer at most twice, and an answer that was not lost once.
func (a *answer) lost(now time.Time) bool {
	switch {
	case a.cut:
		return true
	case a.line == nil, !a.shared && a.heardSince():
		return false
	case a.line.Reset():
		return true
	case a.shared: // the bytes in flight may be those of another stream
		return false
	}
	_, all, open := a.line.Acked()
	return open && !all && now.Sub(a.at) > lostAfter
}

// next makes an answer of the waiting frames, or an empty one if must is set; nil: no frames wait. A poll that a newer poll has replaced
// gets no frames.
func (c *polled) next(r *http.Request, turn chan struct{}, must bool) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &answer{number: c.number}
	a.sendTo(r)
	if c.over != turn {
		return a
	}
	if !must && a.line != nil && a.line.PeerLeft() {
		return nil // the client is gone; net/http ends the poll's context as soon as it notices
	}
	items, bye, held := c.client.TakeHeld()
	if len(items) == 0 && bye == nil {
		if must {
			return a
		}
		return nil
	}
	c.number++
	a.number, a.items, a.bye, a.held = c.number, items, bye != nil, held
	c.kept = a
	return a
}

// answer sends an answer, and then checks whether it arrived: bytes in the kernel's buffer do not show that the client is alive.
func (c *polled) answer(w http.ResponseWriter, r *http.Request, id string, a *answer) {
	err := gateway.ReplyPoll(w, id, a.number, a.items)
	if err != nil || r.Context().Err() != nil {
		c.mu.Lock()
		a.cut = true
		c.mu.Unlock()
		return
	}
	sess := c.client.Session()
	if a.line == nil {
		sess.Alive()
		return
	}
	time.AfterFunc(ackedWithin, func() {
		if _, all, open := a.line.Acked(); a.heardSince() || (all || !open) && !a.line.Reset() {
			sess.Alive()
		}
	})
}

// drop forgets the last answer.
func (c *polled) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked()
}

func (c *polled) dropLocked() {
	if c.kept != nil {
		c.client.Release(c.kept.held)
		c.kept = nil
	}
}
