// Package judge finds the one at fault when a provider refuses messages: one address, the host, or the credential that
// all addresses share. Senders say what an answer can mean (package push); here answers about different recipients are
// compared.
package judge

import (
	"sync"
	"time"
)

const (
	// several is the number of different recipients whose refusals in a row, with no message accepted in between, raise a doubt about what
	// they share. A shorter row is coincidence; with 20 % stale addresses, five refusals in a row occur once in 3,000 messages.
	several = 5
	// confirming is the number of further refusals that turn the doubt into a ruling. Only messages sent after the doubt arose count: they
	// are few and drawn at random (package dispatch), since addresses that were created together become stale together. Together, several
	// and confirming limit the messages that a revoked credential costs.
	confirming = 5

	// leastTries is the number of refusals after which an address can be ruled alone at fault: between two tries, other messages show
	// whether other addresses are served.
	leastTries = 2
	// aloneTries is the number of tries for an address if no other address gives evidence. With the waits of package dispatch they take
	// more than a minute, in which a host with wrong answers can recover.
	aloneTries = 6
	// provenFor is the time for which an accepted message proves that a credential works, where only a single address is refused.
	provenFor = time.Minute
	// endedAfter is the time for which a host must keep reporting that none of its addresses exist before that is believed.
	endedAfter = 10 * time.Minute
)

// Party identifies the receiver of a message: a recipient, or an anonymous subscriber. All addresses of one recipient are one party, since
// a client may register any number of them.
type Party uint64

// Message is an attempt to send a message.
type Message struct {
	Party Party
	Left  time.Time // this attempt
	First time.Time // the first attempt
	Tries int       // this one included
}

// Objection is an answer that fits several causes.
type Objection struct {
	Ended bool // an address that is alone at fault no longer exists
	Host  bool // if all addresses are refused, the host is ill; false: the credential is at fault
}

// Ruling is the meaning of an objection.
type Ruling uint8

// Rulings.
const (
	Later   Ruling = iota // unknown so far: try again
	Address               // this address alone is at fault
	Ill                   // the host refuses everybody: try again when it has recovered
	Shared                // the credential is at fault: stop
)

// Case holds the evidence about one scope: a credential, or a credential at one host. The zero value holds no evidence.
type Case struct {
	mu      sync.Mutex
	refused map[Party]struct{} // parties refused in a row with no message accepted in between; at most several
	doubted time.Time          // when the doubt about the whole scope arose; zero: there is none
	confirm int                // refusals since then
	probed  time.Time          // when the last message left
	taken   time.Time          // the last message that was
	silent  int                // messages in a row without any answer
	heard   bool               // some answer has come
	flying  int                // messages under way
	free    chan struct{}      // closed when there may be room for another message; nil: nobody waits
}

// Took records that a message was accepted: the credential and the host work.
func (c *Case) Took(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	c.taken = now
	c.calm()
}

// Answered records an answer that is no evidence about other addresses.
func (c *Case) Answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
}

// Silent records a message that got no answer.
func (c *Case) Silent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent++
}

func (c *Case) hear() { c.heard, c.silent = true, 0 }

// calm ends a doubt.
func (c *Case) calm() {
	clear(c.refused)
	c.doubted, c.confirm = time.Time{}, 0
	c.wake()
}

// Reset drops all refusals after a person has checked the credential, and also its success: the credential has to prove itself again.
func (c *Case) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = time.Time{}
	c.calm()
}

// Objected rules on a refusal.
func (c *Case) Objected(m Message, o Objection, now time.Time) Ruling {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	if c.alone(m) {
		return Address
	}
	if ruling, done := c.weigh(m, o, now); done {
		return ruling
	}
	switch all := len(c.refused) >= several; {
	case all && o.Host && o.Ended && now.Sub(m.First) >= endedAfter:
		return Address
	case all && o.Host:
		return Ill
	case m.Tries >= aloneTries:
		return Address
	}
	return Later
}

// alone reports whether other addresses succeed while this one is refused.
func (c *Case) alone(m Message) bool {
	if m.Tries < leastTries || c.taken.IsZero() {
		return false
	}
	_, known := c.refused[m.Party]
	only := len(c.refused) == 0 || len(c.refused) == 1 && known
	return c.taken.After(m.First) || only && m.First.Sub(c.taken) < provenFor
}

// weigh adds a refusal to the evidence. done reports whether the evidence suffices for a ruling about the credential.
func (c *Case) weigh(m Message, o Objection, now time.Time) (r Ruling, done bool) {
	switch {
	case len(c.refused) < several:
		if c.refused == nil {
			c.refused = make(map[Party]struct{}, several)
		}
		if c.refused[m.Party] = struct{}{}; len(c.refused) == several {
			c.doubted, c.probed = now, now
		}
	case o.Host || m.Left.Before(c.doubted):
	default:
		if c.confirm++; c.confirm >= confirming {
			c.calm()
			c.taken = time.Time{}
			return Shared, true
		}
	}
	return Later, false
}
