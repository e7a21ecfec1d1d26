package preference

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Step is an escalation step that is about to start.
type Step struct {
	Channel  push.Channel
	Category string // of its notification
	High     bool   // its notification's priority is high
	Critical bool   // the app has marked the category as critical
	Now      time.Time
	Expires  time.Time // of its copy
}

// Verdict is the decision about a step according to preferences. The zero value lets it start.
type Verdict struct {
	Skip  string    // why the step is skipped; empty: it is not
	Until time.Time // the step is postponed until then; zero: it is not
}

// Decide decides whether a step may start. A critical step always may. High priority overrides quiet hours, but not the choice of channels.
func (p *Preferences) Decide(s *Step) Verdict {
	switch {
	case s.Critical:
		return Verdict{}
	case !p.allow(s.Category, s.Channel):
		return Verdict{Skip: fmt.Sprintf("the recipient's preferences do not let %s come over %s", what(s.Category), s.Channel)}
	case s.High || p.Quiet == nil:
		return Verdict{}
	}
	hours, err := quiet.Parse("quiet_hours", p.Quiet.From, p.Quiet.To)
	in := quiet.Zone(p.Timezone)
	if err != nil || in == nil { // the values were valid when they were set, but perhaps with another list of time zones
		return Verdict{}
	}
	until := hours.Next(s.Now, in)
	switch {
	case !until.After(s.Now):
		return Verdict{}
	case !until.Before(s.Expires):
		return Verdict{Skip: "the recipient's quiet hours end at " + until.UTC().Format(time.RFC3339) + ", when the notification has expired"}
	}
	return Verdict{Until: until}
}

// Beyond returns the reason for skipping a step because of a limit.
func Beyond(l Limit, category string) string {
	return fmt.Sprintf("as many steps of %s as the app allows have begun for the recipient: %s", what(category), l)
}

// BeyondCampaigns returns the reason why a campaign's message is held back: the person got campaigns, the last one at a time.
func BeyondCampaigns(l Limit, category string, last time.Time) string {
	return fmt.Sprintf("as many campaigns of %s have reached the person as the app allows: %s; the last one at %s", what(category), l, last.UTC().Format(time.RFC3339))
}

// what describes a notification's category for messages.
func what(category string) string {
	if category == "" {
		return "what has no category"
	}
	return "category " + notification.Clip(category)
}
