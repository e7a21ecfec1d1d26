package mailboxdb

import (
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Repaired counts what Ready could not restore exactly.
type Repaired struct {
	Ended  int64 // ended copies with an unknown outcome, which count as expired
	Unsure int64 // copies that are pending again although they may have ended
}

// Ready gives each copy in a file a row that itself says whether the copy is pending, so that statements can select by it. The file must
// not be open elsewhere. lost names the tables that have lost rows.
func Ready(c *sqlite.Conn, lost map[string]bool) (r Repaired, err error) {
	if n, err := sqlitex.ResultInt64(c.Prep("SELECT count(*) FROM sqlite_schema WHERE name IN ('settlement', 'outcome')")); err != nil || n == 0 {
		return r, err // a file of an earlier version, whose rows do so already
	}
	if err := sqlitex.ExecuteTransient(c, "SAVEPOINT ready", nil); err != nil {
		return r, err
	}
	if err = r.ready(c, lost["settlement"], lost["outcome"]); err == nil {
		return r, sqlitex.ExecuteTransient(c, "RELEASE ready", nil)
	}
	_ = sqlitex.ExecuteTransient(c, "ROLLBACK TO ready", nil) // its own error does not matter, only the first one
	return r, err
}

func (r *Repaired) ready(c *sqlite.Conn, settlements, outcomes bool) error {
	if err := unpack(c); err != nil {
		return err
	}
	// If meta is lost, folded is the end of the last stretch: after it only pending copies can have rows marked as pending.
	folded, err := sqlitex.ResultInt64(c.Prep("SELECT max(coalesce((SELECT value FROM meta WHERE name = 'folded_pos'), 0), coalesce((SELECT max(first) + 511 FROM outcome), 0))"))
	if err != nil {
		return err
	}
	settle, err := c.Prepare(settleSQL + " AND open = 2")
	if err != nil {
		return err
	}
	var failed error
	err = eachSettled(c, func(q *settled) {
		if q.pos > folded && failed == nil {
			failed = q.write(settle)
		}
	})
	if err == nil {
		err = failed
	}
	if err == nil && outcomes {
		err = r.guess(c, "pos <= ?1 AND pos >> 9 << 9 NOT IN (SELECT first FROM outcome)", folded)
	}
	if err == nil && settlements {
		err = r.guess(c, "pos > ?1", folded)
	}
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"UPDATE notification SET open = 1 WHERE open = 2 AND pos > ?1",
		"DELETE FROM settlement WHERE ?1 = ?1",
		"UPDATE meta SET value = max(?1, coalesce((SELECT max(pos) FROM notification), 0)) WHERE name = 'folded_pos'",
	} {
		if err := sqlitedb.EachOnce(c, sql, []any{folded}, func(*sqlite.Stmt) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// unpack moves all packed copies to rows.
func unpack(c *sqlite.Conn) error {
	if n, err := sqlitex.ResultInt64(c.Prep("SELECT count(*) FROM sqlite_schema WHERE name = 'pack'")); err != nil || n == 0 {
		return err
	}
	packs, err := c.Prepare(selectPacks)
	if err != nil {
		return err
	}
	put, err := c.Prepare(copyNoteSQL)
	if err != nil {
		return err
	}
	err = eachPack(packs, 0, math.MaxInt64, func(p *pack) error {
		for pos := p.shared.pos; pos <= p.last(); pos++ {
			if r, ok := p.row(pos); ok {
				if err := r.write(put); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("give packed notifications rows: %w", err)
	}
	return sqlitex.ExecuteTransient(c, "DELETE FROM pack", nil)
}

// guess decides about copies whose state is lost: a copy counts as pending if its content still exists and can be delivered.
func (r *Repaired) guess(c *sqlite.Conn, which string, folded int64) error {
	const content = " EXISTS (SELECT 1 FROM content c WHERE c.pos = CASE body_offset WHEN -1 THEN notification.pos ELSE notification.pos - body_offset END)"
	which = "open = 2 AND " + which
	for _, step := range []struct {
		sql  string
		args []any
		n    *int64
	}{
		{"UPDATE notification SET open = 0, status = ?2, settled_at = created_at WHERE " + which + " AND (pos <= ?1 OR NOT" + content + ")", []any{folded, int64(notification.Expired)}, &r.Ended},
		{"UPDATE notification SET open = 1 WHERE " + which, []any{folded}, &r.Unsure},
	} {
		if err := sqlitedb.EachOnce(c, step.sql, step.args, func(*sqlite.Stmt) error { return nil }); err != nil {
			return err
		}
		*step.n += int64(c.Changes())
	}
	return nil
}
