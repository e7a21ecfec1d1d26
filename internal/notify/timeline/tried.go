package timeline

import (
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

const restarted = "this server started; what it wrote to connections in the two seconds before it ended may not be listed here"

// connection describes the connection to which a copy was written.
func connection(a *mailbox.Attempt) string {
	name := a.Device
	if name == "" {
		name = "a connection over " + a.Gateway
		if a.Gateway == "" {
			name = "a connection"
		}
	}
	if a.Node != "" {
		name += " on " + a.Node
	}
	return name
}

// acknowledged names the device that has acknowledged a copy, if it is known.
func acknowledged(a *mailbox.Attempt) string {
	if a.Device == "" && a.Gateway == "" {
		return ""
	}
	return connection(a)
}

// tries returns entries for the attempts, except for the acknowledgement that ended the copy: the end has an entry of its own.
func tries(r *mailbox.Record) (list []Entry) {
	seen := make(map[string]int)
	for i := range r.Tried {
		a := &r.Tried[i]
		e := Entry{At: a.At, Channel: "live"}
		to := connection(a)
		switch a.What {
		case mailbox.Written:
			if e.Event, e.Text = "delivered", "written to "+to; seen[to] > 0 {
				e.Event, e.Text = "redelivered", "written to "+to+" again"
			}
			seen[to]++
		case mailbox.Nacked:
			if e.Event, e.Text = "nacked", to+" could not take it"+because(a.Reason); a.Reason == "" {
				e.Text += ", and did not say why"
			}
		case mailbox.Acked:
			if i == last(r) {
				continue
			}
			e.Event, e.Text = "ack", to+" has acknowledged it"
		}
		list = append(list, e)
	}
	return list
}

// last returns the index of the acknowledgement that ended a copy; -1: there is none, or it is unknown.
func last(r *mailbox.Record) int {
	for i := len(r.Tried) - 1; i >= 0 && r.Acked(); i-- {
		if r.Tried[i].What == mailbox.Acked {
			return i
		}
	}
	return -1
}

// by names the device that has acknowledged a copy.
func by(r *mailbox.Record) string {
	if i := last(r); i >= 0 {
		if who := acknowledged(&r.Tried[i]); who != "" {
			return " by " + who
		}
	}
	return ""
}

// story describes, as a part of a sentence, where and when a copy was written, and how its clients answered.
func story(r *mailbox.Record) string {
	var names []string
	times := make(map[string][]time.Time)
	writes := 0
	for i := range r.Tried {
		a := &r.Tried[i]
		if a.What != mailbox.Written {
			continue
		}
		to := connection(a)
		if times[to] == nil {
			names = append(names, to)
		}
		times[to] = append(times[to], a.At)
		writes++
	}
	if writes == 0 {
		return written(r)
	}
	var b strings.Builder
	for i, to := range names {
		if i > 0 {
			b.WriteString(", and ")
		}
		fmt.Fprintf(&b, "written to %s at %s%s", to, clock(times[to][0]), repeats(times[to][1:]))
	}
	if more := int64(r.Attempts) - int64(writes); more > 0 && len(names) == 1 { // with several connections, each counts its own attempts
		fmt.Fprintf(&b, ", and %d more that are not known in detail", more)
	}
	return b.String() + refused(r)
}

// fewRepeats is the most repeated attempts that are listed individually.
const fewRepeats = 4

func repeats(at []time.Time) string {
	short := func(t time.Time) string { return t.UTC().Format("15:04:05") }
	switch n := len(at); {
	case n == 0:
		return ""
	case n > fewRepeats:
		return fmt.Sprintf(", and again %s until %s", Times(uint32(n)), short(at[n-1])) //nolint:gosec // some hundreds
	}
	parts := make([]string, len(at))
	for i, t := range at {
		parts[i] = short(t)
	}
	if n := len(parts); n > 1 {
		return ", again at " + strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return ", again at " + parts[0]
}

// refused describes why clients refused a copy.
func refused(r *mailbox.Record) string {
	n, reason := r.Nacks, r.Reason
	said := uint32(0)
	for i := range r.Tried {
		if r.Tried[i].What == mailbox.Nacked {
			said++
			if r.Tried[i].Reason != "" && r.Nacks == 0 {
				reason = r.Tried[i].Reason
			}
		}
	}
	if n = max(n, said); n == 0 {
		return ""
	}
	return "; clients could not take it " + Times(n) + because(reason)
}
