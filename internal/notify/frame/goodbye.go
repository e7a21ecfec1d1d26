package frame

import (
	"math/rand/v2"
	"time"
)

// Reasons of goodbyes that more than one package says or asks for.
const (
	Shutdown        = "shutdown"         // the server stops, or is drained
	StoreAway       = "store_away"       // this node alone cannot reach its database
	RateLimited     = "rate_limited"     // too many hellos of the address
	Full            = "full"             // no place for another client of this kind
	AuthUnavailable = "auth_unavailable" // clients cannot be verified at the moment
	TooManySessions = "too_many_sessions"
	Replaced        = "replaced" // another session of the device took over
	Erased          = "erased"   // the recipient was erased
	Left            = "left"     // the client has ended its side
)

// Outlook is what a client may expect of coming back after a goodbye. It decides how each gateway closes: the close code
// of a WebSocket, the status of a gRPC stream, whether an EventSource is answered so that it comes back.
type Outlook uint8

const (
	// Later is for trouble that passes: come back after RetryAfter. It is the outlook of reasons that no list names, so that
	// a new reason keeps nobody away.
	Later Outlook = iota
	// Elsewhere is for a server that goes away: another node, or its successor, takes the client after RetryAfter.
	Elsewhere
	// Pointless is for clients that have done nothing wrong and that nobody waits for any more.
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

// Outlook says what the client may expect.
func (g Goodbye) Outlook() Outlook {
	if g.Refusal {
		return Never
	}
	return outlooks[g.Reason]
}

// How long a browser's EventSource waits before it connects again, unless the goodbye says it.
const (
	// comeBackMost is the most that an EventSource waits after a lost connection; each draws a time from the upper half, so
	// that the pages of a lost node do not all come at once. Browsers wait about as long by themselves.
	comeBackMost = 4 * time.Second
	// stayAway is for pages that nobody waits for: two tabs of one device would replace each other for ever. No
	// event stops an EventSource, so its retry line says an hour.
	stayAway = time.Hour
)

// comeBack is when an EventSource shall connect again after a goodbye.
func (g Goodbye) comeBack() time.Duration {
	switch {
	case g.RetryAfter > 0:
		return g.RetryAfter
	case g.Outlook() == Pointless:
		return stayAway
	}
	return anyTime()
}

// anyTime is when an EventSource shall connect again after its connection was lost.
func anyTime() time.Duration {
	return comeBackMost/2 + time.Duration(rand.Int64N(int64(comeBackMost/2)))
}
