package timeline

import (
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
)

func published(r *mailbox.Record) string {
	if r.ExpiresAt.IsZero() {
		return "published"
	}
	return "published, to be acknowledged before " + clock(r.ExpiresAt)
}

// clock formats a time for sentences.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Times returns "once", "twice" or the number of times.
func Times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// written describes how often a copy was written to connections, and why clients refused it.
func written(r *mailbox.Record) string {
	s := "written to a connection"
	if r.Attempts > 1 {
		s += ", " + Times(r.Attempts) + " so far"
		if !r.SettledAt.IsZero() {
			s = "written to a connection, " + Times(r.Attempts) + " in all"
		}
	}
	if r.Nacks > 0 {
		s += "; clients could not take it " + Times(r.Nacks) + because(r.Reason)
	}
	return s
}

// because adds a given reason.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// ended describes the end of a copy.
func ended(r *mailbox.Record) string {
	switch r.Status {
	case notification.Delivered:
		return "settled by its delivery: it asks for no acknowledgement"
	case notification.Acked:
		return fmt.Sprintf("acknowledged%s, %s after it was due", by(r), took(r.SettledAt.Sub(r.Due())))
	case notification.Replied:
		return fmt.Sprintf("answered%s, %s after it was due", by(r), took(r.SettledAt.Sub(r.Due())))
	case notification.Expired:
		return "expired"
	case notification.Replaced:
		return "replaced by a newer one with the same collapse_key"
	case notification.Recalled:
		return "recalled by a back end"
	case notification.Failed:
		return "given up: clients could not take it" + because(r.Reason)
	}
	return r.Status.String()
}

// took formats a duration for sentences.
func took(d time.Duration) string {
	d = max(d, 0)
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// stepText describes a step beyond live.
func stepText(s *Step) string {
	switch s.Status {
	case "waiting":
		return "comes next if nobody has acknowledged by then" + because(s.Detail)
	case "will_skip":
		return "will not be tried, as things stand" + because(s.Detail)
	case "skipped":
		return "not tried" + because(s.Detail)
	case "suppressed":
		return "not sent" + because(s.Detail)
	case "sending":
		if s.Attempts > 0 {
			return "tried " + Times(uint32(min(s.Attempts, 1<<30))) + ", is tried again" + because(s.Detail) //nolint:gosec // counts from 0
		}
		return "is being sent"
	case "held":
		return "waits until the channel is set up anew" + because(s.Detail)
	case "accepted":
		return "accepted by the provider"
	case "shown":
		return "shown, as the device says"
	case "clicked":
		return "clicked, as the device says"
	case "failed":
		return "failed" + because(s.Detail)
	case "unknown":
		return "may have arrived or not" + because(s.Detail)
	case "withdrawn":
		return "accepted, and withdrawn after the acknowledgement"
	case "withdraw_sent":
		return "accepted, and a withdrawal was sent after the acknowledgement"
	}
	return s.Status + because(s.Detail)
}

// why explains a copy's state in a sentence.
func why(r *mailbox.Record, steps []Step, who *recipient.View, now time.Time) string {
	return live(r, who, now) + beyond(r, steps)
}

// live is the part of the sentence about connections.
func live(r *mailbox.Record, who *recipient.View, now time.Time) string {
	switch r.Status {
	case notification.Scheduled:
		return "It is not due before " + clock(r.Due())
	case notification.Acked, notification.Replied, notification.Recalled, notification.Replaced, notification.Failed:
		return capital(ended(r)) + attempts(r)
	case notification.Delivered:
		if !r.SettledAt.IsZero() {
			if len(r.Tried) > 0 {
				return "It was " + story(r) + ", and asks for no acknowledgement"
			}
			return "It was written to a connection of " + r.To + ", and asks for no acknowledgement"
		}
		return "It was " + story(r) + ", and nobody has acknowledged it yet" + absent(r, who)
	case notification.Expired:
		return "It expired at " + clock(r.SettledAt) + unwritten(r, who)
	}
	return "It waits" + waits(r, who, now)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// attempts describes how often a copy was written before it ended.
func attempts(r *mailbox.Record) string {
	if r.Attempts == 0 {
		return ", without having been written to a connection"
	}
	return ""
}

// unwritten explains why an expired copy was not acknowledged.
func unwritten(r *mailbox.Record, who *recipient.View) string {
	switch {
	case r.Attempts > 0:
		return ": it was " + story(r) + ", and nobody acknowledged it"
	case len(who.Sessions) > 0:
		return ": it was never written to a connection" + connected(r, who.Sessions)
	case who.LastSeen.IsZero():
		return ": " + r.To + " has never been connected"
	case who.LastSeen.Before(r.Due()):
		return ": " + r.To + " was not connected in that time, and is last seen at " + clock(who.LastSeen)
	case !who.LastSeen.Before(r.SettledAt): // whether there was a connection before, nobody knows any more
		return ": it was never written to a connection, and had expired before " + r.To + " was last seen at " + clock(who.LastSeen)
	}
	return ": it was never written to a connection, although " + r.To + " was there at " + clock(who.LastSeen)
}

// connected compares the end of a copy that was never written with the oldest connection that its recipient has now.
func connected(r *mailbox.Record, sessions []session.Info) string {
	first := sessions[0].ConnectedAt
	for i := range sessions {
		if at := sessions[i].ConnectedAt; at.Before(first) {
			first = at
		}
	}
	if first.Before(r.SettledAt) {
		return ", although " + r.To + " is connected since " + clock(first)
	}
	return ", and had expired before " + r.To + " connected at " + clock(first)
}

// waits describes what a copy that was never written is waiting for.
func waits(r *mailbox.Record, who *recipient.View, now time.Time) string {
	if len(who.Sessions) == 0 {
		if who.LastSeen.IsZero() {
			return ": " + r.To + " has never been connected"
		}
		return fmt.Sprintf(": %s is not connected, and was last seen %s ago", r.To, took(now.Sub(who.LastSeen)))
	}
	if s := full(who.Sessions); s != nil {
		return fmt.Sprintf(": the window of %s is full; it has %d before this one to acknowledge", device(s), s.Unacked)
	}
	return ": " + r.To + " is connected, and it is about to be written"
}

// full finds a session that accepts no more notifications until its client acknowledges.
func full(sessions []session.Info) *session.Info {
	for i := range sessions {
		if sessions[i].Behind && sessions[i].Unacked > 0 {
			return &sessions[i]
		}
	}
	return nil
}

func device(s *session.Info) string {
	if s.Device != "" {
		return s.Device
	}
	return "a connection over " + s.Gateway
}

// absent adds, to the sentence about a written copy, that no session is left to acknowledge it.
func absent(r *mailbox.Record, who *recipient.View) string {
	if len(who.Sessions) > 0 {
		return ""
	}
	return "; " + r.To + " is not connected any more"
}

// beyond is the part of the sentence about steps.
func beyond(r *mailbox.Record, steps []Step) string {
	if len(steps) == 0 {
		return "."
	}
	var b strings.Builder
	for i := range steps {
		s := &steps[i]
		if s.Status == "waiting" {
			fmt.Fprintf(&b, "; %s follows at %s%s", s.Channel, clock(s.At), because(s.Detail))
			continue
		}
		fmt.Fprintf(&b, "; %s: %s", s.Channel, stepText(s))
	}
	return b.String() + "."
}
