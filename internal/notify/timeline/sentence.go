package timeline

import (
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
)

func published(r *mailbox.Record) Text {
	if r.ExpiresAt.IsZero() {
		return phrase("published")
	}
	return phrase("published, to be acknowledged before %s", r.ExpiresAt)
}

// written describes how often a copy was written to connections, and why clients refused it.
func written(r *mailbox.Record) Text {
	t := phrase("written to a connection")
	if r.Attempts > 1 {
		t = phrase("written to a connection, %s so far", times(r.Attempts))
		if !r.SettledAt.IsZero() {
			t = phrase("written to a connection, %s in all", times(r.Attempts))
		}
	}
	if r.Nacks > 0 {
		t = because(phrase("%s; clients could not take it %s", t, times(r.Nacks)), r.Reason)
	}
	return t
}

// ended describes the end of a copy.
func ended(r *mailbox.Record) Text {
	who, known := by(r)
	took := r.SettledAt.Sub(r.Due())
	switch r.Status {
	case notification.Delivered:
		return phrase("settled by its delivery: it asks for no acknowledgement")
	case notification.Acked:
		if known {
			return phrase("acknowledged by %s, %s after it was due", who, took)
		}
		return phrase("acknowledged, %s after it was due", took)
	case notification.Replied:
		if known {
			return phrase("answered by %s, %s after it was due", who, took)
		}
		return phrase("answered, %s after it was due", took)
	case notification.Expired:
		return phrase("expired")
	case notification.Replaced:
		return phrase("replaced by a newer one with the same collapse_key")
	case notification.Recalled:
		return phrase("recalled by a back end")
	case notification.Failed:
		return because(phrase("given up: clients could not take it"), r.Reason)
	case notification.Digested:
		if r.Digest.Items < 2 {
			return phrase("went into digest %s, in which it is alone", r.Digest.ID)
		}
		return phrase("went into digest %s, which has %s notifications", r.Digest.ID, uint32(r.Digest.Items))
	}
	return phrase(r.Status.String())
}

// stepTexts describe steps beyond live by their status. The reason follows.
var stepTexts = map[string]Text{
	"waiting":    phrase("comes next if nobody has acknowledged by then"),
	"will_skip":  phrase("will not be tried, as things stand"),
	"skipped":    phrase("not tried"),
	"suppressed": phrase("not sent"),
	"held":       phrase("waits until the channel is set up anew"),
	"failed":     phrase("failed"),
	"unknown":    phrase("may have arrived or not"),
}

// settledTexts describe steps that need no reason.
var settledTexts = map[string]Text{
	"accepted":      phrase("accepted by the provider"),
	"shown":         phrase("shown, as the device says"),
	"clicked":       phrase("clicked, as the device says"),
	"withdrawn":     phrase("accepted, and withdrawn after the acknowledgement"),
	"withdraw_sent": phrase("accepted, and a withdrawal was sent after the acknowledgement"),
}

// stepText describes a step beyond live.
func stepText(s *Step) Text {
	if t, ok := settledTexts[s.Status]; ok {
		return t
	}
	switch t, ok := stepTexts[s.Status]; {
	case ok:
		return because(t, s.Detail)
	case s.Status != "sending":
		return because(phrase(s.Status), s.Detail)
	case s.Attempts > 0:
		return because(phrase("tried %s, is tried again", times(uint32(min(s.Attempts, 1<<30)))), s.Detail) // counts from 0
	}
	return phrase("is being sent")
}

// why explains a copy's state in a sentence.
func why(r *mailbox.Record, steps []Step, who *recipient.View, now time.Time) Text {
	return phrase("%s.", beyond(live(r, who, now), steps))
}

// live is the part of the sentence about connections.
func live(r *mailbox.Record, who *recipient.View, now time.Time) Text {
	switch r.Status {
	case notification.Gathered:
		if r.Digest.Items < 2 {
			return phrase("It waits in digest %s, in which it is alone, and leaves with it at %s at the latest", r.Digest.ID, r.Digest.Due)
		}
		return phrase("It waits in digest %s, which has %s notifications, and leaves with it at %s at the latest", r.Digest.ID, uint32(r.Digest.Items), r.Digest.Due)
	case notification.Digested:
		if r.Digest.Items < 2 {
			return phrase("It went into digest %s, in which it is alone; what became of that is the status of %s", r.Digest.ID, r.Digest.ID)
		}
		return phrase("It went into digest %s, which has %s notifications; what became of that is the status of %s", r.Digest.ID, uint32(r.Digest.Items), r.Digest.ID)
	case notification.Scheduled:
		return phrase("It is not due before %s", r.Due())
	case notification.Acked, notification.Replied, notification.Recalled, notification.Replaced, notification.Failed:
		return attempts(r)
	case notification.Delivered:
		switch {
		case r.SettledAt.IsZero():
			return absent(phrase("It was %s, and nobody has acknowledged it yet", story(r)), r, who)
		case len(r.Tried) > 0:
			return phrase("It was %s, and asks for no acknowledgement", story(r))
		}
		return phrase("It was written to a connection of %s, and asks for no acknowledgement", r.To)
	case notification.Expired:
		return expired(r, who)
	}
	return waits(r, who, now)
}

// attempts describes the end of a copy, and whether it was written before.
func attempts(r *mailbox.Record) Text {
	t := ended(r)
	t.Begins = true
	if r.Attempts == 0 {
		return phrase("%s, without having been written to a connection", t)
	}
	return t
}

// expired explains why an expired copy was not acknowledged.
func expired(r *mailbox.Record, who *recipient.View) Text {
	at := r.SettledAt
	switch {
	case r.Attempts > 0:
		return phrase("It expired at %s: it was %s, and nobody acknowledged it", at, story(r))
	case len(who.Sessions) > 0:
		return connected(r, who.Sessions)
	case who.LastSeen.IsZero():
		return phrase("It expired at %s: %s has never been connected", at, r.To)
	case who.LastSeen.Before(r.Due()):
		return phrase("It expired at %s: %s was not connected in that time, and is last seen at %s", at, r.To, who.LastSeen)
	case !who.LastSeen.Before(at): // whether there was a connection before, nobody knows any more
		return phrase("It expired at %s: it was never written to a connection, and had expired before %s was last seen at %s", at, r.To, who.LastSeen)
	}
	return phrase("It expired at %s: it was never written to a connection, although %s was there at %s", at, r.To, who.LastSeen)
}

// connected compares the end of a copy that was never written with the oldest connection that its recipient has now.
func connected(r *mailbox.Record, sessions []session.Info) Text {
	first := sessions[0].ConnectedAt
	for i := range sessions {
		if at := sessions[i].ConnectedAt; at.Before(first) {
			first = at
		}
	}
	if first.Before(r.SettledAt) {
		return phrase("It expired at %s: it was never written to a connection, although %s is connected since %s", r.SettledAt, r.To, first)
	}
	return phrase("It expired at %s: it was never written to a connection, and had expired before %s connected at %s", r.SettledAt, r.To, first)
}

// waits describes what a copy that was never written is waiting for.
func waits(r *mailbox.Record, who *recipient.View, now time.Time) Text {
	if len(who.Sessions) == 0 {
		if who.LastSeen.IsZero() {
			return phrase("It waits: %s has never been connected", r.To)
		}
		return phrase("It waits: %s is not connected, and was last seen %s ago", r.To, now.Sub(who.LastSeen))
	}
	if s := full(who.Sessions); s != nil {
		return phrase("It waits: the window of %s is full; it has %s before this one to acknowledge", device(s), uint32(min(s.Unacked, 1<<30))) // counts from 0
	}
	return phrase("It waits: %s is connected, and it is about to be written", r.To)
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

func device(s *session.Info) Text {
	if s.Device != "" {
		return phrase("%s", s.Device)
	}
	return phrase("a connection over %s", s.Gateway)
}

// absent adds, to the sentence about a written copy, that no session is left to acknowledge it.
func absent(t Text, r *mailbox.Record, who *recipient.View) Text {
	if len(who.Sessions) > 0 {
		return t
	}
	return phrase("%s; %s is not connected any more", t, r.To)
}

// beyond adds the steps to the sentence.
func beyond(t Text, steps []Step) Text {
	for i := range steps {
		s := &steps[i]
		if s.Status == "waiting" {
			t = phrase("%s; %s", t, because(phrase("%s follows at %s", s.Channel, s.At), s.Detail))
			continue
		}
		t = phrase("%s; %s: %s", t, s.Channel, stepText(s))
	}
	return t
}
