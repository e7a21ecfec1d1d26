package timeline

import (
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/push"
)

var restarted = phrase("this server started; what it wrote to connections in the two seconds before it ended may not be listed here")

// connection describes the connection to which a copy was written.
func connection(a *mailbox.Attempt) Text {
	name := phrase("%s", a.Device)
	switch {
	case a.Device == "" && a.Gateway == "":
		name = phrase("a connection")
	case a.Device == "":
		name = phrase("a connection over %s", a.Gateway)
	}
	if a.Node != "" {
		name = phrase("%s on %s", name, a.Node)
	}
	return name
}

// tries returns entries for the attempts, except for the acknowledgement that ended the copy: the end has an entry of its own.
func tries(r *mailbox.Record) (list []Entry) {
	seen := make(map[string]int)
	for i := range r.Tried {
		a := &r.Tried[i]
		e := Entry{At: a.At, Channel: push.Live}
		to := connection(a)
		switch a.What {
		case mailbox.Written:
			if e.Event, e.Text = "delivered", phrase("written to %s", to); seen[to.String()] > 0 {
				e.Event, e.Text = "redelivered", phrase("written to %s again", to)
			}
			seen[to.String()]++
		case mailbox.Nacked:
			if e.Event, e.Text = "nacked", because(phrase("%s could not take it", to), a.Reason); a.Reason == "" {
				e.Text = phrase("%s could not take it, and did not say why", to)
			}
		case mailbox.Acked:
			if i == last(r) {
				continue
			}
			e.Event, e.Text = "ack", phrase("%s has acknowledged it", to)
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

// by returns the device that has acknowledged a copy, if it is known.
func by(r *mailbox.Record) (device Text, known bool) {
	i := last(r)
	if i < 0 || r.Tried[i].Device == "" && r.Tried[i].Gateway == "" {
		return Text{}, false
	}
	return connection(&r.Tried[i]), true
}

// story describes, as a part of a sentence, where and when a copy was written, and how its clients answered.
func story(r *mailbox.Record) Text {
	var names []Text
	at := make(map[string][]time.Time)
	writes := 0
	for i := range r.Tried {
		a := &r.Tried[i]
		if a.What != mailbox.Written {
			continue
		}
		to := connection(a)
		if at[to.String()] == nil {
			names = append(names, to)
		}
		at[to.String()] = append(at[to.String()], a.At)
		writes++
	}
	if writes == 0 {
		return written(r)
	}
	var t Text
	for i, to := range names {
		when := at[to.String()]
		one := repeats(phrase("written to %s at %s", to, when[0]), when[1:])
		if t = phrase("%s, and %s", t, one); i == 0 {
			t = one
		}
	}
	if more := int64(r.Attempts) - int64(writes); more > 0 && len(names) == 1 { // with several connections, each counts its own attempts
		t = phrase("%s, and %s more that are not known in detail", t, uint32(more)) // less than Attempts
	}
	return refused(t, r)
}

// fewRepeats is the most repeated attempts that are listed individually.
const fewRepeats = 4

// repeats adds the times at which a copy was written again.
func repeats(t Text, at []time.Time) Text {
	switch n := len(at); {
	case n == 0:
		return t
	case n > fewRepeats:
		return phrase("%s, and again %s until %s", t, times(uint32(n)), Hour(at[n-1])) // some hundreds
	case n == 1:
		return phrase("%s, again at %s", t, Hour(at[0]))
	}
	list := phrase("%s", Hour(at[0]))
	for _, one := range at[1 : len(at)-1] {
		list = phrase("%s, %s", list, Hour(one))
	}
	return phrase("%s, again at %s and %s", t, list, Hour(at[len(at)-1]))
}

// refused adds why clients refused a copy.
func refused(t Text, r *mailbox.Record) Text {
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
		return t
	}
	return because(phrase("%s; clients could not take it %s", t, times(n)), reason)
}
