package judge

import "time"

const (
	// unknownMost limits the messages under way to a scope that has not answered yet, or that has refused some and accepted none. If the
	// scope hangs or its credential is revoked, these messages are the price of finding out.
	unknownMost = 8
	// silentAfter is the number of messages in a row without an answer after which a scope counts as hanging. silentMost limits the
	// messages under way to it then; they find out when it answers again.
	silentAfter, silentMost = 8, 4
	// refusedMost limits the messages under way when a doubt about the credential is near. During a doubt only one message is under way,
	// and one leaves every probeGap; meanwhile package dispatch shuffles the waiting messages.
	refusedMost = 4
	probeGap    = time.Second
)

// most returns the limit of messages under way in this case, for a scope of room places.
func (c *Case) most(room int) int {
	switch {
	case !c.doubted.IsZero():
		return min(room, 1)
	case len(c.refused) > several/2:
		return min(room, refusedMost)
	case c.silent >= silentAfter:
		return min(room, silentMost)
	case !c.heard, c.taken.IsZero() && len(c.refused) > 0:
		return min(room, unknownMost)
	}
	return room
}

// Enter takes one of the scope's room places for a message. If none is free, it returns a channel that is closed when one may be. A nil
// channel with ok false means that there is a doubt: chance picks the next message among all that are due later.
func (c *Case) Enter(room int, now time.Time) (wait <-chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	doubted := !c.doubted.IsZero()
	if c.flying < c.most(room) && (!doubted || now.Sub(c.probed) >= probeGap) {
		c.flying++
		c.probed = now
		return nil, true
	}
	if doubted {
		return nil, false
	}
	if c.free == nil {
		c.free = make(chan struct{})
	}
	return c.free, false
}

// Leave gives a place back.
func (c *Case) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying--
	c.wake()
}

// wake makes all messages that wait for a place try again.
func (c *Case) wake() {
	if c.free != nil {
		close(c.free)
		c.free = nil
	}
}

// Idle reports whether the case may be dropped: nothing is under way and no address is refused.
func (c *Case) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flying == 0 && len(c.refused) == 0 && c.silent == 0
}
