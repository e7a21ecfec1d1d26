package mailboxdb

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// LostItems are items of an inbox that a repair could not save.
type LostItems struct {
	App, Recipient string
	Items          int64 // 0: unknown
}

// RepairedInboxes is the result of RepairInboxes.
type RepairedInboxes struct {
	Rebuilt  int   // inboxes whose counts were counted anew
	Contents int64 // contents whose numbers of references were counted anew
	Lost     []LostItems
	Unnamed  int64 // items of inboxes whose newest rows are lost, in all
}

// RepairInboxes makes inboxes agree with their rows and contents, in a file that is not open elsewhere. heads are the keys of rows that are lost,
// as far as they are known.
func RepairInboxes(c *sqlite.Conn, heads []int64, now time.Time) (r RepairedInboxes, err error) {
	if there, err := hasInboxes(c); err != nil || !there {
		return r, err
	}
	if err := sqlitex.ExecuteTransient(c, "SAVEPOINT inboxes", nil); err != nil {
		return r, err
	}
	m := inboxMender{c: c, now: now}
	if err = m.all(heads); err == nil {
		return m.r, sqlitex.ExecuteTransient(c, "RELEASE inboxes", nil)
	}
	_ = sqlitex.ExecuteTransient(c, "ROLLBACK TO inboxes", nil) // its own error does not matter, only the first one
	return r, fmt.Errorf("repair inboxes: %w", err)
}

// DisagreeingInbox describes the first inbox of a file that differs from its rows; empty: all agree.
func DisagreeingInbox(c *sqlite.Conn) (found string, err error) {
	if there, err := hasInboxes(c); err != nil || !there {
		return "", err
	}
	var all inbox.Checked
	for after, more := int64(-1), true; more && found == "" && err == nil; {
		after, more, err = eachInbox(c, after, func(of *inboxrow.Rowset) error {
			return checkInbox(c, of, &all, func(app, recipient, problem string) {
				found = fmt.Sprintf("inbox of %s in app %s: %s", recipient, app, problem)
			})
		})
	}
	if err != nil || found != "" {
		return found, err
	}
	refs, err := sqlitex.ResultInt64(c.Prep("SELECT coalesce(sum(refs), 0) FROM inbox_content"))
	if err == nil && refs != all.Items {
		found = fmt.Sprintf("contents of inboxes have %d references, and there are %d items", refs, all.Items)
	}
	return found, err
}

// inboxMender repairs inboxes.
type inboxMender struct {
	c     *sqlite.Conn
	now   time.Time
	r     RepairedInboxes
	items int64 // that are left
	gone  int   // inboxes that were deleted
	named int64 // lost items of known inboxes whose contents are there
}

func (m *inboxMender) all(heads []int64) error {
	for after, more := int64(-1), true; more; {
		var err error
		if after, more, err = eachInbox(m.c, after, m.one); err != nil {
			return err
		}
	}
	if err := m.nameHeads(heads); err != nil {
		return err
	}
	refs, err := sqlitex.ResultInt64(m.c.Prep("SELECT coalesce(sum(refs), 0) FROM inbox_content"))
	if err == nil && (refs != m.items || m.r.Rebuilt+m.gone > 0) {
		err = m.countReferences()
	}
	if err == nil { // positions of contents are never given out again
		err = sqlitex.ExecuteTransient(m.c, "UPDATE meta SET value = max(value, coalesce((SELECT max(pos) FROM inbox_content), 0)) WHERE name = 'last_pos'", nil)
	}
	return err
}

// one repairs one inbox.
func (m *inboxMender) one(of *inboxrow.Rowset) error {
	app, name, known, err := ownerOf(m.c, of.Recipient)
	if err != nil {
		return err
	}
	if !known {
		return m.drop(of)
	}
	items, problem, err := inboxProblem(m.c, of)
	if err != nil {
		return err
	}
	if problem == "" {
		m.items += int64(items)
		return nil
	}
	done, err := inboxrow.Rebuild(of, mendRows{m.c}, m.now)
	if err != nil {
		return err
	}
	m.r.Rebuilt++
	m.items += int64(done.Items)
	lost := LostItems{app, name, int64(done.Lost)}
	if done.Headless {
		lost.Items = 0
	} else {
		m.named += int64(done.Lost - done.Contents)
	}
	if done.Headless || done.Lost > 0 {
		m.r.Lost = append(m.r.Lost, lost)
	}
	return nil
}

// drop deletes the inbox of a recipient that is being erased, or whose row is lost: its number will be another's.
func (m *inboxMender) drop(of *inboxrow.Rowset) error {
	leaving, err := isErased(m.c, of.Recipient)
	if err != nil {
		return err
	}
	lost := LostItems{Recipient: fmt.Sprint("number ", of.Recipient)}
	rows := mendRows{m.c}
	for _, key := range append([]int64{inboxrow.Key(of.Recipient)}, of.Parts...) {
		data, err := rows.Read(key)
		if err != nil {
			return err
		}
		lost.Items += int64(inboxrow.Entries(key, data))
		if err := rows.Delete(key); err != nil {
			return err
		}
	}
	m.named += lost.Items
	if m.gone++; !leaving {
		m.r.Lost = append(m.r.Lost, lost)
	}
	return nil
}

// nameHeads names inboxes without any row.
func (m *inboxMender) nameHeads(heads []int64) error {
	for _, key := range heads {
		recipient, head := inboxrow.Recipient(key)
		app, name, known, err := ownerOf(m.c, recipient)
		if err != nil {
			return err
		}
		left, err := sqlitex.ResultInt64(bound(m.c.Prep("SELECT count(*) FROM inbox WHERE key >= ?1 AND key <= ?1 | 4095"), inboxrow.Key(recipient)))
		if err != nil {
			return err
		}
		if head && known && left == 0 {
			m.r.Lost = append(m.r.Lost, LostItems{App: app, Recipient: name})
		}
	}
	return nil
}

func bound(st *sqlite.Stmt, key int64) *sqlite.Stmt {
	st.BindInt64(1, key)
	return st
}

// countReferences counts the items of each content, and deletes contents without any.
func (m *inboxMender) countReferences() (err error) {
	if err := sqlitex.ExecuteTransient(m.c, "CREATE TEMP TABLE kept(pos INTEGER PRIMARY KEY, n INTEGER NOT NULL)", nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqlitex.ExecuteTransient(m.c, "DROP TABLE temp.kept", nil)) }()
	add := m.c.Prep("INSERT INTO temp.kept(pos, n) VALUES (?1, 1) ON CONFLICT (pos) DO UPDATE SET n = n + 1")
	for after, more := int64(-1), true; more; {
		if after, more, err = eachInbox(m.c, after, func(of *inboxrow.Rowset) error {
			return inboxrow.Contents(of, readRows{m.c}, func(at int64) error { return exec(bound(add, at)) })
		}); err != nil {
			return err
		}
	}
	lost, err := sqlitex.ResultInt64(m.c.Prep("SELECT coalesce(sum(c.refs - coalesce(k.n, 0)), 0) FROM inbox_content c LEFT JOIN temp.kept k ON k.pos = c.pos WHERE c.refs > coalesce(k.n, 0)"))
	if err != nil {
		return err
	}
	m.r.Unnamed = max(0, lost-m.named)
	for _, sql := range []string{
		"DELETE FROM inbox_content WHERE pos NOT IN (SELECT pos FROM temp.kept)",
		"UPDATE inbox_content SET refs = k.n FROM temp.kept k WHERE k.pos = inbox_content.pos AND refs <> k.n",
	} {
		if err := sqlitedb.EachOnce(m.c, sql, nil, func(*sqlite.Stmt) error { return nil }); err != nil {
			return err
		}
		m.r.Contents += int64(m.c.Changes())
	}
	return nil
}

// mendRows are the rows of a file that nobody else has open.
type mendRows struct{ c *sqlite.Conn }

var _ inboxrow.Remains = mendRows{}

func (t mendRows) Read(key int64) ([]byte, error) { return readBlob(t.c, selectInbox, key) }

func (t mendRows) Write(row inboxrow.Row) error {
	st := t.c.Prep("INSERT OR REPLACE INTO inbox(key, data, due) VALUES (?1, ?2, nullif(?3, 0))")
	st.BindInt64(1, row.Key)
	st.BindBytes(2, row.Data)
	st.BindInt64(3, row.Due)
	return exec(st)
}

func (t mendRows) Delete(key int64) error {
	return exec(bound(t.c.Prep("DELETE FROM inbox WHERE key = ?1"), key))
}

// Release is left to countReferences.
func (mendRows) Release(int64) error { return nil }

func (t mendRows) Category(at int64) (string, bool, error) {
	data, err := readBlob(t.c, selectKept, at)
	if err != nil || data == nil {
		return "", false, err
	}
	c, err := content.Decode(data)
	return c.Category, err == nil, nil // a damaged content is a lost one
}
