package mailboxdb

import (
	"context"
	"time"
)

// ShortHours has the tables of an hour hold less.
func (c *Config) ShortHours(d time.Duration) { c.hour = d }

// Patient has a table written anew, and a locked recipient waited for, however long that takes.
func (c *Config) Patient() { c.rewriteWithin, c.parkFor = time.Minute, time.Minute }

// Shrink has tables shrink as upkeep does, at a moment.
func (s *Store) Shrink(ctx context.Context, now time.Time) error { return s.shrink(ctx, now) }

// Parked counts the publishes that wait for recipients whom another transaction has locked.
func (s *Store) Parked() int64 {
	n := int64(0)
	for _, l := range s.lanes {
		n += l.parked.Load()
	}
	return n
}

// Seal seals what is past.
func (s *Store) Seal(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = s.seal(ctx); err != nil {
			return err
		}
	}
	return nil
}

// IDKey is what an id is found by.
func IDKey(app, id string) int64 { return idKey(app, id) }
