package frame

import (
	"math/rand/v2"
	"time"
)

// Reasons of goodbyes that more than one package uses.
const (
	Shutdown        = "shutdown"         // the server stops or is being drained
	StoreAway       = "store_away"       // this node cannot reach its database; other nodes can
	RateLimited     = "rate_limited"     // the address sends too many hellos
	Full            = "full"             // there is no place for another client of this kind
	AuthUnavailable = "auth_unavailable" // clients cannot be verified at the moment
	TooManySessions = "too_many_sessions"
	Replaced        = "replaced" // another session of the device took over
	Erased          = "erased"   // the recipient was erased
	Left            = "left"     // the client has ended its side
)

// Outlook is what a client can expect if it reconnects after a goodbye. It decides how each gateway closes: the close code of a WebSocket,
// the status of a gRPC stream, and the answer that makes an EventSource reconnect or not.
type Outlook uint8

const (
	// Later is for passing trouble: the client should reconnect after RetryAfter. It is the outlook of all unlisted reasons, so that a new
	// reason keeps no client away.
	Later Outlook = iota
	// Elsewhere is for a server that goes away: another node, or its successor, accepts the client after RetryAfter.
	Elsewhere
	// Pointless is for clients that made no error, but whose session has no further use.
	Pointless
	// Never is for refusals: the same client, with the same credential, will be refused again.
	Never
)

// outlooks has the reasons whose outlook does not follow from Goodbye.Refusal.
var outlooks = map[string]Outlook{
	Shutdown: Elsewhere, StoreAway: Elsewhere,
	Replaced: Pointless,
	Erased:   Pointless,
	Left:     Pointless,
}

// Outlook returns what the client can expect if it reconnects.
func (g Goodbye) Outlook() Outlook {
	if g.Refusal {
		return Never
	}
	return outlooks[g.Reason]
}

// How long a browser's EventSource waits before it reconnects, unless the goodbye states a time.
const (
	// comeBackMost is the longest wait of an EventSource after a lost connection. Each client gets a random time from the upper half, so
	// that the clients of a lost node do not all reconnect at once. Browsers wait about as long by default.
	comeBackMost = 4 * time.Second
	// stayAway is the wait of clients whose reconnecting is pointless: two tabs of one device would replace each other for ever. No event
	// stops an EventSource, so its retry line states an hour.
	stayAway = time.Hour
)

// comeBack is the time until an EventSource shall reconnect after a goodbye.
func (g Goodbye) comeBack() time.Duration {
	switch {
	case g.RetryAfter > 0:
		return g.RetryAfter
	case g.Outlook() == Pointless:
		return stayAway
	}
	return anyTime()
}

// anyTime is a random time until an EventSource shall reconnect after its connection was lost.
func anyTime() time.Duration {
	return comeBackMost/2 + time.Duration(rand.Int64N(int64(comeBackMost/2)))
}
