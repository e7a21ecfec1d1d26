package appdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// pollEvery is the interval of checking the file for other processes' changes, which must take effect within 1 s. A check takes a few
// system calls.
const pollEvery = 400 * time.Millisecond

// Watch implements appsql.DB: it polls the version, one row, which changes with every commit in any process that changes an app's
// settings. Sign-ins and entries of the audit log leave the version as it is: they are written far more often, and nobody caches them.
func (d file) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := int64(-1) // the caller may not know the commits from before the watch either, so the first check reports a change
	for {
		version, err := d.version(ctx)
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

func (d file) version(ctx context.Context) (v int64, err error) {
	err = d.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT value FROM version", nil, func(row *sqlite.Stmt) error {
			v = row.ColumnInt64(0)
			return nil
		})
	})
	return v, err
}
