package admin

import (
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
)

// question asks whether a campaign shall be sent. It says how many it reaches, over what, and at its own rate for how long.
func question(s *campaign.Spec, n reached) string {
	if n.Count == 0 && n.Looked == 0 {
		return "It reaches nobody now. Start it all the same?"
	}
	var q strings.Builder
	q.WriteString("Send it to ")
	if n.Looked > 0 {
		q.WriteString("at least ")
	}
	q.WriteString(count(n.Count))
	if q.WriteString(" address"); n.Count != 1 {
		q.WriteString("es")
	}
	if channels := s.Audience.Channels; len(channels) > 0 {
		names := make([]string, len(channels))
		for i, ch := range channels {
			names[i] = channelWord(ch)
		}
		q.WriteString(" over " + strings.Join(names, ", "))
	}
	if s.Rate > 0 && n.Looked == 0 {
		took := time.Duration(float64(n.Count) / float64(s.Rate) * float64(time.Second))
		fmt.Fprintf(&q, ", about %s at %s a second", lasted(took), decimal(float64(s.Rate)))
	}
	if s.Spread > 0 {
		q.WriteString(", within " + lasted(time.Duration(s.Spread)))
	}
	return q.String() + "?"
}
