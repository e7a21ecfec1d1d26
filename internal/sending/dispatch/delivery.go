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

// Outcomes. The public name of Sending is that of Pending.
const (
	Pending    Outcome = iota // waits for its first or another attempt
	Sending                   // claimed: its request may have been sent
	Accepted                  // the provider took it
	Refused                   // no provider will ever accept it: failed
	Expired                   // its time ended before a provider accepted it
	Suppressed                // not sent: it was cancelled, or the subscriber left
	Unknown                   // it was sent, but whether it was accepted is unknown
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

// ParseOutcome parses the public name of an outcome.
func ParseOutcome(s string) (Outcome, bool) {
	for i, name := range outcomeNames {
		if name == s && Outcome(i) != Sending {
			return Outcome(i), true // eight of them
		}
	}
	return 0, false
}

// ErrStale informs a former owner of a backlog's deliveries that another process has taken them over: its results are ignored.
var ErrStale = errors.New("the delivery queue has another owner")

// ChannelError says that a channel cannot send: it is not set up, or switched off.
type ChannelError struct {
	Channel push.Channel
	Err     error
}

func (e *ChannelError) Error() string {
	return "channel " + string(e.Channel) + " cannot send: " + e.Err.Error()
}
func (e *ChannelError) Unwrap() error { return e.Err }

// Delivery is a message for one endpoint that may have to be sent, with the endpoint's current data.
type Delivery struct {
	Row        int64 // names it within its backlog
	EndpointID audience.ID
	Channel    push.Channel
	Attempts   int
	Unsure     bool // an earlier attempt may have arrived
	Due        time.Time
	First      time.Time // time of the first attempt; zero: none yet
	At         time.Time // of the last change
	External   string    // the provider's id for the message
	Outcome    Outcome
	Group      uint8 // the backlog's own mark

	Left       bool // the endpoint was deleted
	Disabled   string
	Recipient  string
	Address    json.RawMessage
	Attributes audience.Attributes
	Locale     string
	Timezone   string

	scope scope // the scope that paces it; set when its place was found
}

// Result is the outcome of a claimed delivery, or of one that need not be sent.
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
	Disable  string          // not empty: disables the endpoint, for this reason
	Since    time.Time       // with Disable: only if the endpoint registered before this time; zero: in any case
	Address  json.RawMessage // not nil: the endpoint's new address
}

// ends makes a final result. A message that may have arrived stays Unknown when a later attempt fails.
func (d *Delivery) ends(o Outcome, detail string) Result {
	if d.Unsure && o != Accepted {
		o, detail = Unknown, "an earlier attempt may have arrived; then: "+detail
	}
	return Result{Row: d.Row, Channel: d.Channel, Outcome: o, Detail: detail, Attempts: d.Attempts, Unsure: d.Unsure}
}

// again postpones a delivery without counting an attempt.
func (d *Delivery) again(at time.Time) Result {
	return Result{Row: d.Row, Channel: d.Channel, Outcome: Pending, Due: at, Attempts: d.Attempts, Unsure: d.Unsure}
}

// held postpones a delivery until a person has checked why its channel was refused.
func (d *Delivery) held(why string) Result {
	res := d.again(time.Time{})
	res.Held, res.Detail = true, why
	return res
}
