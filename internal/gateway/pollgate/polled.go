package pollgate

import (
	"net/http"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
)

const (
	// ackedWithin is when the connection of an answer is asked whether the client's TCP has acknowledged it. Until then the
	// poll itself was the last sign of life.
	ackedWithin = 2 * time.Second
	// lostAfter is how long an answer may be on its way before it counts as lost for a client that does not name answers.
	lostAfter = time.Second
)

// polled is one polled session. Its answers are numbered and kept until a poll names them, since an answer may be lost on
// its way and nothing else tells: most frames do not come again by themselves.
type polled struct {
	client *gateway.PostingClient
	ended  bool // was found ended by the last sweep; under Gateway.mu

	mu     sync.Mutex
	over   chan struct{} // closed when a newer poll takes over
	number uint64        // of the last answer with frames
	kept   *answer       // that one; nil: the client has it
}

// answer is the answer to a poll.
type answer struct {
	number uint64
	items  []gateway.Item
	held   int64 // of the bytes that wait for all clients
	bye    bool  // the session has ended with this answer

	line   *reactor.Line // the connection of the poll that it answers; nil: unknown
	shared bool          // by streams of HTTP/2
	taken  uint64        // bytes that had come over line before it was sent
	at     time.Time     // when it was sent
	cut    bool          // the poll's connection ended before it was sent
	again  bool          // it was sent before
}

// sendTo notes the connection on which the answer leaves.
func (a *answer) sendTo(r *http.Request) {
	a.line, a.shared, a.at, a.cut = reactor.LineOf(r.Context()), r.ProtoMajor > 1, time.Now(), false
	if a.line != nil {
		a.taken = a.line.Taken()
	}
}

// heardSince reports that the client has sent something over the connection since. Over HTTP/1.1 it has read the answer by then: a
// later answer may be on its way, or be broken off.
func (a *answer) heardSince() bool { return a.line.Taken() != a.taken }

// take ends an older poll of the session and returns a channel that a newer one closes.
func (c *polled) take() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		close(c.over)
	}
	c.over = make(chan struct{})
	return c.over
}

// settle looks whether the client has the last answer. If not, it is to be given again; ended: it has, and that was the
// session's end.
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

// lost reports whether an answer seems not to have been read. A client may also break a connection off when it has read all it
// wants, as some do that stop at the end of the JSON. So one that names no answers gets an answer twice at most, and those that
// were not lost once.
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

// next makes an answer of the frames that wait, of none if it must; nil: there are none. A poll that another took over from
// gets none.
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

// answer sends an answer, and checks whether it arrives: bytes that the kernel took prove nothing about the client.
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
