package appdb

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// pollEvery is the interval of reads of the version. NOTIFY would serialize all commits of a database.
const pollEvery = time.Second

// Watch implements appsql.DB: it reads the version, which increases with every commit that changes something. While the database is away it
// waits: the settings read before remain in force.
func (d schema) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last, away := int64(-1), false // the caller may also lack commits from before the watch began
	for {
		version, err := d.version(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case pgdb.Away(err):
			if !away {
				d.log.WarnContext(ctx, "settings of apps cannot be watched for changes; those that were read stay in force", "error", err)
			}
			away = true
		case err != nil:
			return fmt.Errorf("watch app store: %w", err)
		default:
			if away = false; version != last {
				last = version
				changed()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// answerWithin limits one query, so that Watch does not wait for a database that has stopped answering.
const answerWithin = 5 * time.Second

func (d schema) version(ctx context.Context) (v int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("PostgreSQL did not answer within %s", answerWithin))
	defer cancel()
	err = d.db.Pool().QueryRow(ctx, "SELECT value FROM version").Scan(&v)
	return v, err
}
