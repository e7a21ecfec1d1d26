package appdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// pollEvery is how often the file is asked whether anybody changed it; contract: effective within 1 s. It costs a
// few system calls.
const pollEvery = 400 * time.Millisecond

// One row, changed by every transaction that changes an app's settings. Sign-ins and people's deeds do not change
// it: they are written far more often, and nobody caches them.
const versionTable = `
CREATE TABLE version (
	one   INTEGER PRIMARY KEY CHECK (one = 1),
	value INTEGER NOT NULL
) STRICT;
INSERT INTO version(one, value) VALUES (1, 0);
`

// change runs fn in a commit with which the version grows, unless fn fails.
func (s *Store) change(ctx context.Context, fn func(*sqlite.Conn) error) error {
	return s.db.Do(ctx, func(c *sqlite.Conn) error {
		if err := fn(c); err != nil {
			return err
		}
		// A time, so that it differs from all before even where the row was lost.
		return sqlitedb.Each(c, `INSERT INTO version(one, value) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET value = max(value + 1, ?1)`,
			[]any{time.Now().UnixMilli()}, nil)
	})
}

// Watch polls the version, which changes with every commit in any process that changes what is set up.
func (s *Store) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := int64(-1) // what was committed before the watch began may not have been seen either
	for {
		version, err := s.version(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("watch app store: %w", err)
		case version != last:
			last = version
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) version(ctx context.Context) (v int64, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT value FROM version", nil, func(row *sqlite.Stmt) error {
			v = row.ColumnInt64(0)
			return nil
		})
	})
	return v, err
}
