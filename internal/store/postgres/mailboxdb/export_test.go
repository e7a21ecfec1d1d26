package mailboxdb

import (
	"context"
	"time"
)

// ShortHours shortens the period that the tables of an hour cover.
func (c *Config) ShortHours(d time.Duration) { c.hour = d }

// Patient removes the limits on the time for rewriting a table and for waiting for a locked recipient.
func (c *Config) Patient() { c.rewriteWithin, c.parkFor = time.Minute, time.Minute }

// Shrink makes tables shrink as upkeep does, at a given time.
func (s *Store) Shrink(ctx context.Context, now time.Time) error { return s.shrink(ctx, now) }

// Parked counts the publishes that wait for recipients locked by another transaction.
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

// IDKey returns the key of an id in its index.
func IDKey(app, id string) int64 { return idKey(app, id) }

// HoldNotes takes the notes that wait to be written, and returns what writes them.
func (s *Store) HoldNotes() (write func()) {
	marks, seen := s.notes.TakeAll()
	return func() { s.writeNotes(marks, seen) }
}
