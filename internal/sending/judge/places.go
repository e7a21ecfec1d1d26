package judge

import "time"

const (
	// unknownMost messages are under way to a scope that has not answered yet, or has refused and taken none: if it hangs
	// or its credential is revoked, these are the price of finding out.
	unknownMost = 8
	// silentAfter is how many messages in a row get no answer before a scope is held to hang, and silentMost how many are
	// under way to it then, to find out when it answers again.
	silentAfter, silentMost = 8, 4
	// refusedMost messages are under way when a doubt about the credential is near. Once there is one, a single message
	// is, and one leaves every probeGap: in between, package dispatch shuffles those that wait.
	refusedMost = 4
	probeGap    = time.Second
)

// most is how many messages may be under way in this case, if room places are free.
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

// Enter takes a place for a message under way, of room places in this scope. If all are taken it returns a channel to wait
// for; nil: there is a doubt, and chance picks who leaves next among all that are due later.
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

// wake makes all that wait for a place try again.
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
