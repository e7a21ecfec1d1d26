package mailboxdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/millis"
)

// pruneSlice is the number of rows beside copies that one commit deletes.
const pruneSlice = 500

// Prune implements mailbox.Store. Copies settled before retainedSince become invisible to all nodes at once, and are dropped with their
// tables. Prune also seals an hour and checks the tables' sizes.
func (s *Store) Prune(ctx context.Context, retainedSince time.Time) (more bool, err error) {
	since := millis.Of(retainedSince)
	err = s.db.Do(ctx, "move retention on", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE retention SET pruned_until = $1 WHERE pruned_until < $1", since)
		return err
	})
	if err != nil {
		return false, s.storeError("prune notifications", err)
	}
	if err := s.resumeErasures(ctx); err != nil {
		return false, s.storeError("delete rows of erased recipients", err)
	}
	if more, err = s.seal(ctx); err != nil {
		return false, s.storeError("seal an hour of notifications", err)
	}
	if err := s.dropDays(ctx, since); err != nil {
		return false, s.storeError("drop old notifications", err)
	}
	beside, err := s.pruneBeside(ctx, since)
	if err != nil {
		return false, s.storeError("prune notifications", err)
	}
	return more || beside, s.storeError("have tables shrink", s.shrink(ctx, time.Now()))
}

// pruneBeside deletes a slice of the replies, nacks and attempts stored beside copies.
func (s *Store) pruneBeside(ctx context.Context, since int64) (more bool, err error) {
	for _, sql := range []string{
		"DELETE FROM reply WHERE (recipient, pos) IN (SELECT recipient, pos FROM reply WHERE at < $1 ORDER BY at LIMIT $2)",
		`DELETE FROM nack WHERE (recipient, pos) IN (SELECT recipient, pos FROM nack n WHERE at < $1
			AND NOT EXISTS (SELECT FROM pending p WHERE p.recipient = ANY(ARRAY[n.recipient]) AND p.pos = n.pos) ORDER BY at LIMIT $2)`,
		`DELETE FROM attempt WHERE (recipient, pos, node) IN (SELECT recipient, pos, node FROM attempt n WHERE at < $1
			AND NOT EXISTS (SELECT FROM pending p WHERE p.recipient = ANY(ARRAY[n.recipient]) AND p.pos = n.pos) ORDER BY at LIMIT $2)`,
		"DELETE FROM tried WHERE last <= (SELECT max(last) FROM (SELECT last FROM tried WHERE last < $1 ORDER BY last LIMIT $2) AS oldest)",
	} {
		err := s.db.Do(ctx, "prune", func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sql, since, pruneSlice)
			more = more || tag.RowsAffected() >= pruneSlice // rows of one millisecond are deleted together
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

// dropDays drops the stubs of days on which no retained copy was sealed.
func (s *Store) dropDays(ctx context.Context, since int64) error {
	set, err := s.tables.now(ctx)
	if err != nil {
		return err
	}
	for _, day := range set.days {
		if day >= dayAt(since) { // a day's table holds copies that settled before the day on which they were sealed
			break
		}
		err := s.db.Do(ctx, fmt.Sprintf("drop day %d", day), func(ctx context.Context, tx pgx.Tx) error {
			if err := s.tables.lock(ctx, tx, lockTables); err != nil {
				return err
			}
			return lockPatiently(ctx, tx, fmt.Sprintf("DROP TABLE IF EXISTS stub_%[1]d; DELETE FROM day WHERE number = %[1]d", day))
		})
		if err != nil {
			return err
		}
		if err := s.tables.ensure(ctx); err != nil {
			return err
		}
	}
	return nil
}
