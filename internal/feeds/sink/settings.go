package sink

import (
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
)

// Change has the new settings of a sink. A nil field, and a value that is not named, stays unchanged.
type Change struct {
	Values   setting.Values // an empty one is taken away
	Backfill *bool          // of a sink that is made
	Enabled  *bool
	Private  bool // see Sink; stays while the addresses do
}

// apply changes a sink, or makes one of an empty one.
func (c *Change) apply(s *Sink, fields []setting.Field, now time.Time) (created bool) {
	if created = s.CreatedAt.IsZero(); created {
		*s = Sink{App: s.App, Kind: s.Kind, Values: setting.Defaults(fields), Enabled: true, CreatedAt: now}
		s.Backfill = c.Backfill != nil && *c.Backfill
	}
	values := s.Values.Update(c.Values, fields)
	s.Private = c.Private || s.Private && values.Lead(s.Values, fields)
	s.Values = values
	if c.Enabled != nil {
		s.Enabled = *c.Enabled
	}
	if !now.After(s.UpdatedAt) { // a change is later than the one before, whatever the clocks say
		now = s.UpdatedAt.Add(time.Millisecond)
	}
	s.UpdatedAt = now
	return created
}
