package campaignrow

import (
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/millis"
)

// Flags of a delivery.
const (
	Unsure      = 1 << 0 // an earlier attempt may have arrived
	reaction    = 1 << 1 // << campaign.Reaction
	NotRecalled = 1 << 4 // detail says why

	groupBits    = 9      // from here two bits: campaign.Group
	NotCorrected = 1 << 8 // detail is the reason, unless it is the reason why the send was not recalled
)

// Further flags, of the sends of escalations' steps.
const (
	settleShown = 1 << 5 // see notification.StepOptions
	keep        = 1 << 6
	answered    = 1 << 7 // its receiver has acknowledged
)

// Stays holds the flags of sends that must not be withdrawn, or not again.
const Stays = NotRecalled | keep | answered

// SendFlags returns the flags of a new send.
func SendFlags(s *escalation.Send) (flags int32) {
	if s.Options.Shown {
		flags |= settleShown
	}
	if s.Options.Keep {
		flags |= keep
	}
	return flags
}

// AnswerFlags returns the flags that an answer adds.
func AnswerFlags(a *escalation.Answer) (flags int32) {
	if a.Event != nil {
		flags |= Reaction(*a.Event)
	}
	if a.Settles {
		flags |= answered
	}
	return flags
}

// OptionsOf reads a send's options from its flags and target.
func OptionsOf(flags int32, target string) notification.StepOptions {
	return notification.StepOptions{Shown: flags&settleShown != 0, Keep: flags&keep != 0, To: target}
}

// Send sets a send's fields from its stored flags and target.
func Send(s *escalation.Send, flags int32, target string) {
	s.Options, s.Tried, s.Answered = OptionsOf(flags, target), flags&NotRecalled != 0, flags&answered != 0
	s.Shown, s.Clicked, s.Dismissed = flags&Reaction(push.Shown) != 0, flags&Reaction(push.Clicked) != 0, flags&Reaction(push.Dismissed) != 0
	if target != "" {
		s.Address = escalation.TargetAddress(target)
	}
}

// Reaction returns the flag of a receiver's reaction.
func Reaction(r campaign.Reaction) int32 { return reaction << r }

// Held is the due time of deliveries that wait for a person: later than any time. Those from Waiting on wait for a decision between
// variants; what is above it is their delay from then on, in milliseconds.
const (
	Held    = 1 << 60
	Waiting = Held + 1
)

// GroupOf reads a delivery's group from its flags.
func GroupOf(flags int32) campaign.Group {
	return campaign.Group(flags >> groupBits & 3) // two bits
}

// Placed returns the due time and the flags of a new delivery.
func Placed(p campaign.Place) (due int64, flags int32) {
	due, flags = millis.Of(p.Due), int32(p.Group)<<groupBits
	if p.Waits {
		due = Waiting + p.After.Milliseconds()
	}
	return due, flags
}

// Details that stores write themselves. None contains an apostrophe, so that they may occur in the text of a query.
const (
	NoAnswer     = "the server ended before the answer came"
	MayHaveCome  = "an earlier attempt may have arrived; then: " // the result without this uncertainty follows
	noReasonTold = "no reason was given"
)

// Delivery sets a delivery's fields from its row's flags and due time.
func Delivery(d *campaign.Delivery, flags int32, due int64) {
	d.Unsure, d.Group = flags&Unsure != 0, GroupOf(flags)
	d.Shown, d.Clicked, d.Dismissed = flags&Reaction(campaign.Shown) != 0, flags&Reaction(campaign.Clicked) != 0, flags&Reaction(campaign.Dismissed) != 0
	if d.Outcome == campaign.Pending {
		switch {
		case due == Held:
			d.Held = true
		case due >= Waiting:
			d.Waits = true
		default:
			d.Due = millis.Time(due)
		}
	}
	switch {
	case flags&NotRecalled != 0:
		d.Recall, d.Detail = d.Detail, ""
	case flags&NotCorrected != 0:
		d.Correction, d.Detail = d.Detail, ""
	}
}

// TargetOf sets a target's fields from the row of its endpoint: whether messages are sent to it, and its attributes.
func TargetOf(t *campaign.Target, active bool, attributes string) error {
	switch {
	case active:
		t.Disabled = ""
	case t.Disabled == "":
		t.Disabled = noReasonTold
	}
	if attributes == "{}" {
		return nil
	}
	if err := json.Unmarshal([]byte(attributes), &t.Attributes); err != nil {
		return fmt.Errorf("read endpoint %s: its row is damaged: %w", t.EndpointID, err)
	}
	return nil
}
