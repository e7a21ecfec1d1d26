package notification

import (
	"fmt"
	"time"
)

// MaxSteps is the most steps of an escalation: more than there are channels would be useless.
const MaxSteps = 8

// Live is the channel of every notification: the sessions of its recipient. An escalation begins with it, whether it is named or not.
const Live = "live"

// Step is one step of an escalation: a channel, and how long a due notification must have been unacknowledged before the step begins.
type Step struct {
	Channel string
	After   time.Duration // whole milliseconds once checked
	StepOptions
}

// StepOptions are further options of a step beyond live.
type StepOptions struct {
	Shown bool   // being shown on a device acknowledges the notification
	Keep  bool   // the step's message is not withdrawn when the notification is settled elsewhere
	To    string // for channel webhook: one of the app's targets; empty: the recipient's own endpoints
}

// webhook is the only channel with targets.
const webhook = "webhook"

// SettleShown is the publisher's word for StepOptions.Shown.
const SettleShown = "shown"

// ParseSettle reads which events acknowledge a step's messages, in addition to clicks and dismissals.
func ParseSettle(field, text string) (shown bool, err error) {
	if text != SettleShown {
		return false, BadField(field, "%q is not %s", Clip(text), SettleShown)
	}
	return true, nil
}

// PutOff postpones step number from and all later steps by the same time, so that step from begins at least the duration after later than
// the notification. Steps that would begin later anyway do not change.
func PutOff(steps []Step, from int, after time.Duration) {
	if by := after - steps[from].After; by > 0 {
		for i := from; i < len(steps); i++ {
			steps[i].After += by
		}
	}
}

// Due returns the time at which a notification became deliverable; the delays of its steps count from then.
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

// check checks whether the options are allowed for the channel.
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
