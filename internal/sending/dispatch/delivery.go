package dispatch

import (
	"encoding/json"
	"errors"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Outcome is the result of one delivery. The numbers are stored: append, never renumber.
type Outcome uint8

// Outcomes. Sending is shown as pending.
const (
	Pending    Outcome = iota // waits for its turn, the first or another one
	Sending                   // claimed: its request may have left
	Accepted                  // the provider took it
	Refused                   // it will never be taken: failed
	Expired                   // its time ran out before a provider accepted it
	Suppressed                // not sent: it was called off, the subscriber left
	Unknown                   // it was sent, and whether it was accepted is unknown
	TakenBack                 // it was accepted and then recalled
	outcomes
)

var outcomeNames = [outcomes]string{"pending", "sending", "accepted", "failed", "expired", "suppressed", "unknown", "recalled"}

func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return "invalid"
}

// ParseOutcome reads an outcome by its public name.
func ParseOutcome(s string) (Outcome, bool) {
	for i, name := range outcomeNames {
		if name == s && Outcome(i) != Sending {
			return Outcome(i), true //nolint:gosec // eight of them
		}
	}
	return 0, false
}

// ErrStale tells a former owner of a backlog's deliveries that another has taken them over: its results are ignored.
var ErrStale = errors.New("the delivery queue has another owner")

// ChannelError is a channel that cannot send: not set up, or switched off.
type ChannelError struct {
	Channel push.Channel
	Err     error
}

func (e *ChannelError) Error() string {
	return "channel " + string(e.Channel) + " cannot send: " + e.Err.Error()
}
func (e *ChannelError) Unwrap() error { return e.Err }

// Delivery is a message to one endpoint that may have to be sent, with the endpoint as it is now.
type Delivery struct {
	Row        int64 // names it within its backlog
	EndpointID audience.ID
	Channel    push.Channel
	Attempts   int
	Unsure     bool // an earlier attempt may have arrived
	Due        time.Time
	First      time.Time // of the first attempt; zero: none yet
	At         time.Time // of the last change
	External   string    // the provider's name for the message
	Outcome    Outcome

	Left       bool // the endpoint does not exist any more
	Disabled   string
	Recipient  string
	Address    json.RawMessage
	Attributes audience.Attributes
	Locale     string
	Timezone   string

	scope scope // the scope that paces it; known once its turn was found
}

// Result is what became of a delivery that was claimed, or of one that need not be sent.
type Result struct {
	Row      int64
	Channel  push.Channel
	Outcome  Outcome // Pending: once more at Due
	Due      time.Time
	Held     bool // pending until a person has checked the channel
	Attempts int
	Unsure   bool
	External string
	Detail   string
	Disable  string          // not empty: the endpoint gets nothing any more, and why
	Since    time.Time       // with Disable: not one that has registered after that; zero: whenever it did
	Address  json.RawMessage // not nil: the endpoint has moved here
}

// ends is a final result. A message that may have arrived stays Unknown when a later attempt fails.
func (d *Delivery) ends(o Outcome, detail string) Result {
	if d.Unsure && o != Accepted {
		o, detail = Unknown, "an earlier attempt may have arrived; then: "+detail
	}
	return Result{Row: d.Row, Channel: d.Channel, Outcome: o, Detail: detail, Attempts: d.Attempts, Unsure: d.Unsure}
}

// again puts a delivery off that was not tried.
func (d *Delivery) again(at time.Time) Result {
	return Result{Row: d.Row, Channel: d.Channel, Outcome: Pending, Due: at, Attempts: d.Attempts, Unsure: d.Unsure}
}

// held postpones a delivery until a person has checked why its channel was refused.
func (d *Delivery) held(why string) Result {
	res := d.again(time.Time{})
	res.Held, res.Detail = true, why
	return res
}
