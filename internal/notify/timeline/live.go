package timeline

import "godwit.dev/godwit/internal/notify/mailbox"

// Live returns a copy's state over connections and the state's time.
func Live(r *mailbox.Record) Step {
	s := Step{Channel: "live", Status: r.Status.String(), At: r.CreatedAt, Detail: liveDetail(r)}
	if !r.DeliveredAt.IsZero() {
		s.At = r.DeliveredAt
	}
	if !r.SettledAt.IsZero() {
		s.At = r.SettledAt
	}
	return s
}

// liveDetail returns the number of times that a copy was sent, and the clients' reasons for refusing it.
func liveDetail(r *mailbox.Record) (s string) {
	if r.Attempts > 0 {
		s = "sent " + times(r.Attempts).String()
	}
	if r.Nacks == 0 {
		return s
	}
	if s != "" {
		s += ", "
	}
	s += "nacked " + times(r.Nacks).String()
	if r.Reason != "" {
		s += ": " + r.Reason
	}
	return s
}
