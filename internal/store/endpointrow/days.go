package endpointrow

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
)

const secondsADay = 24 * 60 * 60

// DayOf returns the number of the day in UTC, counted from 1970.
func DayOf(t time.Time) int64 { return t.Unix() / secondsADay }

// Day identifies a counter of subscribers that were gained and lost.
type Day struct {
	Channel string
	Day     int64
}

// Moved is the number of subscribers that a channel gained and lost on a day.
type Moved struct{ Gained, Lost int64 }

// Days collects changes of the counters, to be written at the end of a transaction.
type Days map[Day]Moved

// Note counts a change of an endpoint: before is nil for a new one, after is nil for a deleted one. A new endpoint counts on the day on which
// it was created, which an import may have set.
func (d Days) Note(before, after *audience.Endpoint, now time.Time) {
	was, is := before != nil && before.Status == audience.Active, after != nil && after.Status == audience.Active
	switch {
	case was && !is:
		k := Day{string(before.Channel), DayOf(now)}
		d[k] = Moved{d[k].Gained, d[k].Lost + 1}
	case is && !was:
		at := now
		if before == nil {
			at = after.CreatedAt
		}
		k := Day{string(after.Channel), DayOf(at)}
		d[k] = Moved{d[k].Gained + 1, d[k].Lost}
	}
}

// DayRow is a row of a report by days.
func DayRow(day, gained, lost int64) endpoint.Day {
	return endpoint.Day{Day: time.Unix(day*secondsADay, 0).UTC(), Gained: gained, Lost: lost}
}
