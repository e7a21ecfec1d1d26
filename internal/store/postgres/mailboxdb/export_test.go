package mailboxdb

import (
	"context"
	"time"
)

// ShortHours has the tables of an hour hold less.
func (c *Config) ShortHours(d time.Duration) { c.hour = d }

// Patient has a table written anew however long that takes.
func (c *Config) Patient() { c.rewriteWithin = time.Minute }

// Shrink has tables shrink as upkeep does, at a moment.
func (s *Store) Shrink(ctx context.Context, now time.Time) error { return s.shrink(ctx, now) }

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
