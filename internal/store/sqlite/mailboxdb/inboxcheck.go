package mailboxdb

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// checkAtOnce is how many rows of inboxes one read of CheckInboxes compares.
const checkAtOnce = 4096

// CheckInboxes implements inbox.Store. Each part of it has a snapshot of its own, so contents are only looked for, not counted.
func (s *Store) CheckInboxes(ctx context.Context, report func(app, recipient, problem string)) (inbox.Checked, error) {
	all, err := checkInboxes(ctx, s.db.Read, report)
	return all, storeError("compare inboxes with their counts", err)
}

// CheckInboxesOf compares the inboxes of a file that a server may have open, and changes nothing. When ctx ends, it returns what it has compared.
func CheckInboxesOf(ctx context.Context, path string, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	err = sqlitedb.Look(path, func(c *sqlite.Conn) error {
		if there, err := hasInboxes(c); err != nil || !there {
			return err
		}
		all, err = checkInboxes(ctx, func(_ context.Context, f func(*sqlite.Conn) error) error { return inSnapshot(c, f) }, report)
		return err
	})
	return all, err
}

// hasInboxes reports whether a file has their tables; those of former versions do not.
func hasInboxes(c *sqlite.Conn) (bool, error) {
	n, err := sqlitex.ResultInt64(c.Prep("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('inbox', 'inbox_content')"))
	return n == 2, err
}

func inSnapshot(c *sqlite.Conn, f func(*sqlite.Conn) error) error {
	if err := sqlitex.ExecuteTransient(c, "BEGIN", nil); err != nil {
		return err
	}
	err := f(c)
	return errors.Join(err, sqlitex.ExecuteTransient(c, "ROLLBACK", nil))
}

func checkInboxes(ctx context.Context, read func(context.Context, func(*sqlite.Conn) error) error, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	for after, more := int64(-1), true; more && ctx.Err() == nil; {
		err := read(ctx, func(c *sqlite.Conn) (err error) {
			after, more, err = eachInbox(c, after, func(of *inboxrow.Rowset) error {
				return checkInbox(c, of, &all, report)
			})
			return err
		})
		if err != nil {
			return all, err
		}
	}
	if ctx.Err() != nil {
		return all, context.Cause(ctx)
	}
	err = read(ctx, func(c *sqlite.Conn) (err error) {
		all.References, err = sqlitex.ResultInt64(c.Prep("SELECT coalesce(sum(refs), 0) FROM inbox_content"))
		return err
	})
	return all, err
}

// eachInbox calls f with some inboxes whose rows have keys after a key; more: call it again with last.
func eachInbox(c *sqlite.Conn, after int64, f func(*inboxrow.Rowset) error) (last int64, more bool, err error) {
	var keys []int64
	err = sqlitedb.Each(c, "SELECT key FROM inbox WHERE key > ?1 ORDER BY key LIMIT ?2", []any{after, checkAtOnce}, func(st *sqlite.Stmt) error {
		keys = append(keys, st.ColumnInt64(0))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return after, false, err
	}
	list := inboxrow.Rowsets(keys)
	if more = len(keys) == checkAtOnce; more && len(list) > 1 {
		list = list[:len(list)-1] // whose rows may go on
	}
	for i := range list {
		if err := f(&list[i]); err != nil {
			return after, false, err
		}
		last = inboxrow.Last(list[i].Recipient)
	}
	return last, more, nil
}

// checkInbox compares one inbox.
func checkInbox(c *sqlite.Conn, of *inboxrow.Rowset, all *inbox.Checked, report func(app, recipient, problem string)) error {
	app, name, known, err := ownerOf(c, of.Recipient)
	if err != nil {
		return err
	}
	items, problem, err := inboxProblem(c, of)
	if err != nil {
		return err
	}
	all.Inboxes, all.Items = all.Inboxes+1, all.Items+int64(items)
	if problem == "" && !known {
		leaving, err := isErased(c, of.Recipient)
		if err != nil || leaving {
			return err
		}
		name, problem = fmt.Sprint("number ", of.Recipient), "nobody has this number"
	}
	if problem != "" {
		report(app, name, problem)
	}
	return nil
}

// inboxProblem tells how an inbox differs from its rows and contents; empty: it does not.
func inboxProblem(c *sqlite.Conn, of *inboxrow.Rowset) (items int, problem string, err error) {
	if !of.Head {
		return 0, "its newest items and its counts are missing", nil
	}
	head, err := readRows{c}.Read(inboxrow.Key(of.Recipient))
	if err != nil {
		return 0, "", err
	}
	b, err := inboxrow.Open(of.Recipient, head)
	if err != nil {
		return 0, err.Error(), nil // that is what it finds
	}
	lost := 0
	items, problem, err = b.Check(readRows{c}, of.Parts, func(at int64) {
		if there, err := keptThere(c, at); err == nil && !there {
			lost++
		}
	})
	if problem == "" && lost > 0 {
		problem = fmt.Sprintf("the contents of %d items are missing", lost)
	}
	return items, problem, err
}

func keptThere(c *sqlite.Conn, at int64) (there bool, err error) {
	err = sqlitedb.Each(c, "SELECT 1 FROM inbox_content WHERE pos = ?1", []any{at}, func(*sqlite.Stmt) error {
		there = true
		return nil
	})
	return there, err
}

// ownerOf returns the name of a recipient by its number.
func ownerOf(c *sqlite.Conn, key int64) (app, name string, known bool, err error) {
	err = sqlitedb.Each(c, "SELECT a.name, r.name FROM recipient r JOIN app a ON a.key = r.app WHERE r.key = ?1", []any{key}, func(st *sqlite.Stmt) error {
		app, name, known = st.ColumnText(0), st.ColumnText(1), true
		return nil
	})
	return app, name, known, err
}

// isErased reports whether a recipient is being erased: its rows will go.
func isErased(c *sqlite.Conn, key int64) (is bool, err error) {
	err = sqlitedb.Each(c, "SELECT 1 FROM erasure WHERE recipient = ?1", []any{key}, func(*sqlite.Stmt) error {
		is = true
		return nil
	})
	return is, err
}
