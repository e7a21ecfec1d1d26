// Package judge finds the one at fault when a provider refuses messages: one address, the host, or the credential that
// all addresses share. Senders say what an answer can mean (package push); here answers about different recipients are
// compared.
package judge

import (
	"sync"
	"time"
)

const (
	// several different recipients that are refused in a row, with none accepted in between, raise a doubt about what they
	// share. Fewer are a coincidence: of 20 % stale addresses five come in a row once in 3,000 messages.
	several = 5
	// confirming is how many more refusals turn the doubt into a ruling. Only messages that left after the doubt arose
	// count: they are few and drawn at random (package dispatch), since addresses that were made together are stale
	// together. With several, it bounds what a revoked credential costs.
	confirming = 5

	// leastTries is how often an address is refused at least before it is alone at fault: between two tries others show
	// whether they are served.
	leastTries = 2
	// aloneTries is how often an address is tried if no other address gives evidence: more than a minute, by the waits of
	// package dispatch, in which a host with wrong answers can recover.
	aloneTries = 6
	// provenFor is how long a message that was taken proves that a credential works, for an address that is the only one
	// to be refused.
	provenFor = time.Minute
	// endedAfter is how long a host that says of all addresses that they do not exist has to repeat that before it is
	// believed.
	endedAfter = 10 * time.Minute
)

// Party identifies whom a message is for: a recipient, or an anonymous subscriber. All addresses of one recipient are
// one party, since a client may register as many as it likes.
type Party uint64

// Message is one that was sent.
type Message struct {
	Party Party
	Left  time.Time // this attempt
	First time.Time // the first attempt
	Tries int       // this one included
}

// Objection is an answer that fits several causes.
type Objection struct {
	Ended bool // if the address is alone at fault, it does not exist any more
	Host  bool // if all are refused, the host is ill; else it is the credential
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

// Case holds the evidence about one scope: a credential, or a credential at one host. The zero value has none.
type Case struct {
	mu      sync.Mutex
	refused map[Party]struct{} // refused in a row with none accepted in between; at most several
	doubted time.Time          // when the doubt about all of them arose; zero: there is none
	confirm int                // refusals since then
	probed  time.Time          // when the last message left
	taken   time.Time          // the last message that was
	silent  int                // messages in a row without any answer
	heard   bool               // some answer has come
	flying  int                // messages under way
	free    chan struct{}      // closed when there may be room for another; nil: nobody waits
}

// Took notes that a message was accepted: what all share is in order.
func (c *Case) Took(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	c.taken = now
	c.calm()
}

// Answered notes an answer that is no evidence about other addresses.
func (c *Case) Answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
}

// Silent notes a message that got no answer.
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

// Reset drops all refusals: a person has checked the credential, which has to prove itself again.
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

// weigh adds a refusal to the evidence. done: it is enough for a ruling about the credential.
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
