package sink

import (
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
)

// Change has the new settings of a sink. A nil field, or a value that is not named, leaves the setting unchanged.
type Change struct {
	Values   setting.Values // an empty value deletes the setting
	Backfill *bool          // applies only when the sink is made
	Enabled  *bool
	Private  bool          // see Sink; unchanged while the addresses are
	Must     setting.Match // that the sink must have
}

// apply changes a sink. If s is empty, it makes a new one.
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
	s.UpdatedAt = setting.After(s.UpdatedAt, now)
	return created
}
