package quiet

import "time"

const day = 24 * time.Hour

// Ahead returns when something ends that begins at t, needs so long, and rests in quiet hours.
func (h Hours) Ahead(t time.Time, needs time.Duration, in *time.Location) time.Time {
	if h == (Hours{}) {
		return t.Add(needs)
	}
	t = h.Next(t, in)
	if loud := day - h.length(); needs > 2*loud { // whole days, but for the last
		days := needs/loud - 1
		t, needs = h.Next(t.AddDate(0, 0, int(days)), in), needs-days*loud
	}
	for {
		begin := h.begins(t, in)
		if left := begin.Sub(t); needs <= left {
			return t.Add(needs)
		}
		needs -= begin.Sub(t)
		next := h.Next(begin, in)
		if !next.After(begin) { // clocks skip these quiet hours
			next = begin.Add(time.Minute)
		}
		t = next
	}
}

// length returns how long quiet hours last.
func (h Hours) length() time.Duration {
	minutes := h.to - h.from
	if minutes < 0 {
		minutes += 24 * 60
	}
	return time.Duration(minutes) * time.Minute
}

// begins returns when quiet hours begin next after t.
func (h Hours) begins(t time.Time, in *time.Location) time.Time {
	year, month, today := t.In(in).Date()
	for day := today - 1; ; day++ {
		if begin, _ := moments(year, month, day, h.from, in); begin.After(t) {
			return begin
		}
	}
}
