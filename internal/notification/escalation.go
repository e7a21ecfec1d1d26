package notification

import (
	"fmt"
	"time"
)

// MaxSteps bounds an escalation: more channels than exist are of no use.
const MaxSteps = 8

// Live is the channel by which every notification goes: the sessions of its recipient. An escalation begins with it, named or not.
const Live = "live"

// Step is one step of an escalation: a channel, and how long after it became due a notification must have been
// unacknowledged.
type Step struct {
	Channel string
	After   time.Duration // whole milliseconds once checked
}

// Due is when a notification became deliverable, from which the steps of its escalation count.
func (n *Notification) Due() time.Time {
	if n.SendAt.IsZero() {
		return n.CreatedAt
	}
	return n.SendAt
}

// setSteps gives n the steps beyond live. Which channels there are is known elsewhere.
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
			return BadField(field("after"), "is when the notification has expired")
		}
		before = s.After
		if s.Channel != Live {
			n.Steps = append(n.Steps, Step{Channel: s.Channel, After: s.After.Truncate(time.Millisecond)})
		}
	}
	if len(n.Steps) > 0 && n.Ack == AckNone {
		return BadField("escalate", "has steps beyond live, and ack none ends a notification before they could begin")
	}
	return nil
}
