// Package stubs fills a mailbox file with settled notifications in the form that delivery and acknowledgement leave, much faster than a
// server could. One statement writes the rows; the store's own code then indexes them. It also takes the rows of objects and registrations
// away, as a failed disk would.
package stubs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

const (
	// span is the age of the oldest notification: one day more than retention, so that retention has work.
	span = 8 * 24 * time.Hour
	// perRecipient is the approximate number of notifications of each recipient.
	perRecipient = 100
	// perStep is the number of notifications that one transaction writes.
	perStep = 500_000
	// unsealed is the number of full index slices that may remain unsealed: the last ones stay in memory, as in any server.
	unsealed = 2
	// sliceRows is the number of rows that the store seals together.
	sliceRows = 1 << 16

	sealPatience = 10 * time.Minute
)

// Fill creates a mailbox file at path with n settled notifications of an app.
func Fill(ctx context.Context, path, app string, n int) error {
	if err := reopen(ctx, path, func() error { return nil }); err != nil { // makes the tables
		return err
	}
	if err := insert(ctx, path, app, n); err != nil {
		return fmt.Errorf("fill %s: %w", path, err)
	}
	if err := os.Remove(path + checkvfs.Suffix); err != nil { // the rows were written without checksums; the store computes them again
		return fmt.Errorf("fill %s: %w", path, err)
	}
	return reopen(ctx, path, func() error { return sealed(ctx, path, n/sliceRows-unsealed) })
}

// reopen opens the store, which then seals the remaining slices, and closes it when wait returns.
func reopen(ctx context.Context, path string, wait func() error) error {
	s, err := mailboxdb.Open(ctx, path, mailboxdb.Config{})
	if err != nil {
		return err
	}
	return errors.Join(wait(), s.Close())
}

func insert(ctx context.Context, path, app string, n int) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.SetInterrupt(ctx.Done())
	recipients := max(n/perRecipient, 1)
	begun := time.Now().Add(-span).UnixMilli()
	if err := sqlitex.ExecuteTransient(c, "PRAGMA synchronous = OFF", nil); err != nil { // without syncs, because after a crash Fill just starts again
		return err
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{"INSERT INTO app(key, name) VALUES (1, ?1)", []any{app}},
		{`WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < ?1 - 1)
			INSERT INTO recipient(key, app, name, last_seq, last_seen) SELECT n + 1, 1, printf('stub-%07d', n), ?2, 0 FROM i`, []any{recipients, n/recipients + 1}},
		{"UPDATE meta SET value = ?1", []any{n}},
	} {
		if err := sqlitex.Execute(c, step.sql, &sqlitex.ExecOptions{Args: step.args}); err != nil {
			return err
		}
	}
	for from := 1; from <= n; from += perStep {
		err := sqlitex.Execute(c, `WITH RECURSIVE i(n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM i WHERE n < ?2)
			INSERT INTO notification SELECT n, n % ?3 + 1, 0, ?6, ?7, ?8, 1, -1, n / ?3 + 1, ?4 + n * ?5 / ?9, 0,
			?4 + n * ?5 / ?9 + 86400000, ?4 + n * ?5 / ?9 + 2, ?4 + n * ?5 / ?9 + 20, n, printf('01STUB%020d', n), NULL FROM i`,
			&sqlitex.ExecOptions{Args: []any{
				from, min(from+perStep-1, n), recipients, begun, span.Milliseconds(),
				int(notification.Acked), int(notification.AckAny), int(notification.Normal), n,
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealed waits until want slices are sealed.
func sealed(ctx context.Context, path string, want int) (err error) {
	if want <= 0 {
		return nil
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, sealPatience, fmt.Errorf("the index was not sealed within %s", sealPatience))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := sqlitex.ResultInt(c.Prep("SELECT count(*) FROM slice"))
		if err != nil || n >= want {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
