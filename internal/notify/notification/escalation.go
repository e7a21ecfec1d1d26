package notification

import (
	"fmt"
	"time"
)

// MaxSteps bounds an escalation: more channels than exist are of no use.
const MaxSteps = 8

// Live is the channel of every notification: the sessions of its recipient. An escalation begins with it, named or not.
const Live = "live"

// Step is one step of an escalation: a channel, and how long after it became due a notification must have been
// unacknowledged.
type Step struct {
	Channel string
	After   time.Duration // whole milliseconds once checked
	StepOptions
}

// StepOptions are further options of a step beyond live.
type StepOptions struct {
	Shown bool   // that a device has shown it acknowledges the notification
	Keep  bool   // its message is not withdrawn when the notification is settled elsewhere
	To    string // of channel webhook: one of the app's targets; empty: the recipient's own endpoints
}

// webhook is the one channel that has targets.
const webhook = "webhook"

// SettleShown is the publisher's word for StepOptions.Shown.
const SettleShown = "shown"

// ParseSettle reads which events acknowledge a step's messages besides clicking and dismissing them.
func ParseSettle(field, text string) (shown bool, err error) {
	if text != SettleShown {
		return false, BadField(field, "%q is not %s", Clip(text), SettleShown)
	}
	return true, nil
}

// PutOff postpones the steps from number from on, so that the first of them begins so long after the notification: those after it
// keep their distance to it. Steps that would begin later anyway do not change.
func PutOff(steps []Step, from int, after time.Duration) {
	if by := after - steps[from].After; by > 0 {
		for i := from; i < len(steps); i++ {
			steps[i].After += by
		}
	}
}

// Due is when a notification became deliverable, from which the steps of its escalation count.
func (n *Notification) Due() time.Time {
	if n.SendAt.IsZero() {
		return n.CreatedAt
	}
	return n.SendAt
}

// setSteps sets n's steps beyond live. Which channels exist is checked elsewhere.
func (d *Draft) setSteps(n *Notification) error {
	if len(d.Escalate) > MaxSteps {
		return BadField("escalate", "has %d steps; at most %d are allowed", len(d.Escalate), MaxSteps)
	}
	before := time.Duration(0)
	for i, s := range d.Escalate {
		field := func(name string) string { return fmt.Sprintf("escalate[%d].%s", i, name) }
		switch {
		case s.Channel == "":
			return BadField(field("channel"), "is required")
		case s.After < 0:
			return BadField(field("after"), "must not be negative")
		case s.Channel == Live && i > 0:
			return BadField(field("channel"), "live comes first: it is where every notification begins")
		case s.Channel == Live && s.After > 0:
			return BadField(field("after"), "live begins at once")
		case s.After < before:
			return BadField(field("after"), "is less than that of the step before: both count from when the notification becomes due")
		case s.Channel != Live && s.After >= n.ExpiresAt.Sub(n.Due()):
			return LapsedField(field("after"), "is when the notification has expired")
		}
		if err := s.check(field); err != nil {
			return err
		}
		before = s.After
		if s.Channel != Live {
			n.Steps = append(n.Steps, Step{s.Channel, s.After.Truncate(time.Millisecond), s.StepOptions})
		}
	}
	if len(n.Steps) > 0 && n.Ack == AckNone {
		return BadField("escalate", "has steps beyond live, and ack none ends a notification before they could begin")
	}
	return nil
}

// check sees whether the options suit the channel.
func (s *Step) check(field func(name string) string) error {
	switch {
	case s.Channel == Live && s.Shown:
		return BadField(field("settle"), "is for channels that push: over live a client acknowledges")
	case s.Channel == Live && s.Keep:
		return BadField(field("withdraw"), "is for channels that push: over live every client is told")
	case s.Channel != webhook && s.To != "":
		return BadField(field("to"), "is for channel webhook alone")
	case s.To != "":
		return CheckName(field("to"), s.To)
	}
	return nil
}
