package mailboxdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ inbox.Store = (*Store)(nil)

// maxBoxes is how many inboxes stay in memory, at about a kilobyte each. Beyond that some are dropped, whichever come first: simpler than to find
// the least recently used ones, and the next publish for one of those reads a row more.
const maxBoxes = 1 << 14

// box is an inbox that the open transaction uses, or a former one did.
type box struct {
	*inboxrow.Box
	r      *recipient
	listed bool // in the transaction's list
}

// boxOf returns a recipient's inbox.
func (s *Store) boxOf(r *recipient) (*box, error) {
	if b := s.boxes[r.key]; b != nil {
		b.r = r // it may have left memory and come back
		return b, nil
	}
	data, err := inboxRows{s}.Read(inboxrow.Key(int64(r.key)))
	if err != nil {
		return nil, err
	}
	opened, err := inboxrow.Open(int64(r.key), data)
	if err != nil {
		return nil, err
	}
	if len(s.boxes) >= maxBoxes {
		s.dropBoxes()
	}
	b := &box{Box: opened, r: r}
	s.boxes[r.key] = b
	return b, nil
}

// dropBoxes drops a quarter of the inboxes in memory.
func (s *Store) dropBoxes() {
	left := maxBoxes / 4
	for key, b := range s.boxes {
		if left--; left < 0 {
			return
		}
		if !b.listed {
			delete(s.boxes, key)
		}
	}
}

// changing has an inbox written at the end of the open transaction, or forgotten if that is undone.
func (s *Store) changing(b *box) {
	if !b.listed {
		b.listed = true
		s.tx.boxes = append(s.tx.boxes, b)
	}
}

// keep puts a copy into its recipient's inbox, with the content at a position and a time.
func (s *Store) keep(r *recipient, n *notification.Notification, at, since int64) error {
	b, err := s.boxOf(r)
	if err != nil {
		return err
	}
	s.changing(b)
	return b.Add(inboxRows{s}, inboxrow.New{
		ID: n.ID, Category: n.Content.Category, CollapseKey: n.CollapseKey, Content: at, CreatedAt: since, Keep: n.Content.Inbox.Keep,
	})
}

// keepContent stores the content of kept copies.
func (s *Store) keepContent(at int64, copies int, body []byte) error {
	s.used.Store(true)
	st := s.stmts.insertKept
	st.BindInt64(1, at)
	st.BindInt64(2, int64(copies))
	st.BindBytes(3, body)
	return exec(st)
}

// keepDue puts a scheduled copy that has become due into its recipient's inbox.
func (s *Store) keepDue(r *recipient, pos int64, n *notification.Notification, now int64) error {
	body, _ := content.Encode(&n.Content)
	if err := s.keepContent(pos, 1, content.Kept(&n.Content, body)); err != nil {
		return err
	}
	return s.keep(r, n, pos, now)
}

// unkeep removes what a newer notification replaces although that is not for the inbox itself.
func (s *Store) unkeep(r *recipient, collapseKey string) error {
	if !s.used.Load() {
		return nil
	}
	b, err := s.boxOf(r)
	if err != nil {
		return err
	}
	s.changing(b)
	return b.Replace(inboxRows{s}, collapseKey)
}

// flushBoxes writes the inboxes that the open transaction has changed.
func (s *Store) flushBoxes() error {
	now := s.cfg.Now()
	for _, b := range s.tx.boxes {
		if !b.Dirty() {
			continue
		}
		c, err := b.Flush(inboxRows{s}, now)
		if err != nil {
			return fmt.Errorf("store inbox of %s: %w", b.r.name, err)
		}
		c.App, c.Recipient = b.r.app.name, b.r.name
		s.tx.batch.Inboxes = append(s.tx.batch.Inboxes, c)
	}
	return nil
}

// forgetBoxes drops the inboxes of a transaction that was undone.
func (s *Store) forgetBoxes() {
	for _, b := range s.tx.boxes {
		delete(s.boxes, b.r.key)
	}
}

// inboxRows are the rows in the open transaction.
type inboxRows struct{ s *Store }

func (t inboxRows) Read(key int64) (data []byte, err error) {
	st := t.s.stmts.readInbox
	st.BindInt64(1, key)
	err = each(st, func(row *sqlite.Stmt) error {
		data = blob(row, 0)
		return nil
	})
	return data, err
}

func (t inboxRows) Write(row inboxrow.Row) error {
	st := t.s.stmts.saveInbox
	switch {
	case row.New:
		st = t.s.stmts.insertInbox
	case row.Same: // most writes: the index stays as it is
		st = t.s.stmts.changeInbox
	}
	st.BindInt64(1, row.Key)
	st.BindBytes(2, row.Data)
	switch {
	case st == t.s.stmts.changeInbox:
	case row.Due == 0:
		st.BindNull(3)
	default:
		st.BindInt64(3, row.Due)
	}
	return exec(st)
}

func (t inboxRows) Delete(key int64) error {
	t.s.stmts.deleteInbox.BindInt64(1, key)
	return exec(t.s.stmts.deleteInbox)
}

func (t inboxRows) Release(at int64) error {
	t.s.stmts.releaseKept.BindInt64(1, at)
	if err := exec(t.s.stmts.releaseKept); err != nil || t.s.stmts.conn.Changes() > 0 {
		return err
	}
	t.s.stmts.deleteKept.BindInt64(1, at)
	return exec(t.s.stmts.deleteKept)
}

// inboxOp changes an inbox at a caller's request.
type inboxOp struct {
	await.Op
	onceMore
	s         *Store
	app, name string
	do        func(*box) error
}

func (op *inboxOp) Size() (rows, bytes int) { return 4, 4 << 10 }
func (op *inboxOp) Done(err error)          { op.Finish(err) }

func (op *inboxOp) Apply(*sqlite.Conn) error {
	if !op.Take() {
		return nil
	}
	r, err := op.s.known(op.app, op.name)
	if err != nil || r == nil {
		return err
	}
	b, err := op.s.boxOf(r)
	if err != nil {
		return err
	}
	op.s.changing(b)
	return op.do(b)
}

// MarkInbox implements inbox.Store.
func (s *Store) MarkInbox(ctx context.Context, app, recipient string, m inbox.Mark) (counts inbox.Counts, err error) {
	n := 0
	op := &inboxOp{s: s, app: app, name: recipient, do: func(b *box) (err error) {
		if n, err = b.Mark(inboxRows{s}, &m); err == nil {
			counts = b.Counts()
		}
		return err
	}}
	if err := carryOut(ctx, s, app, []*inboxOp{op}); err != nil {
		return counts, storeError("change the inbox of "+recipient, err)
	}
	if n == 0 && m.ID != "" {
		return counts, fmt.Errorf("notification %s of %s: %w", m.ID, recipient, inbox.ErrNotFound)
	}
	return counts, nil
}

// LeaveInbox implements inbox.Store.
func (s *Store) LeaveInbox(ctx context.Context, app, id string, recipients []string) (n int, err error) {
	if !s.used.Load() {
		return 0, nil
	}
	ops := make([]*inboxOp, len(recipients))
	for i, name := range recipients {
		ops[i] = &inboxOp{s: s, app: app, name: name, do: func(b *box) error {
			left, err := b.Remove(inboxRows{s}, id)
			if left > 0 {
				n++
			}
			return err
		}}
	}
	err = carryOut(ctx, s, app, ops)
	return n, storeError("take notification "+id+" out of inboxes", err)
}

// sweepSlice is how many inboxes one call of SweepInboxes looks through.
const sweepSlice = 100

// SweepInboxes implements inbox.Store.
func (s *Store) SweepInboxes(ctx context.Context, now time.Time) (n int, more bool, err error) {
	type owner struct{ app, name string }
	var due []owner
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		due = due[:0]
		return sqlitedb.Each(c, `SELECT a.name, r.name FROM inbox i CROSS JOIN recipient r ON r.key = i.key >> 12 JOIN app a ON a.key = r.app
			WHERE i.due <= ?1 ORDER BY i.due LIMIT ?2`, []any{millis.Of(now) / time.Minute.Milliseconds(), sweepSlice}, func(st *sqlite.Stmt) error {
			due = append(due, owner{st.ColumnText(0), st.ColumnText(1)})
			return nil
		})
	})
	if err != nil || len(due) == 0 {
		return 0, false, storeError("find what inboxes keep no more", err)
	}
	ops := make([]*inboxOp, len(due))
	for i, o := range due {
		ops[i] = &inboxOp{s: s, app: o.app, name: o.name, do: func(b *box) error {
			gone, err := b.Expire(inboxRows{s}, now)
			n += gone
			return err
		}}
	}
	err = await.All(ctx, ops, func(op *inboxOp) { s.db.SubmitBulk(op) })
	return n, len(due) == sweepSlice, storeError("remove what inboxes keep no more", err)
}

// eraseInbox deletes an erased recipient's inbox.
type eraseInboxOp struct {
	waitOp
	s   *Store
	key uint32
}

func (op *eraseInboxOp) Apply(*sqlite.Conn) error {
	rows := inboxRows{op.s}
	data, err := rows.Read(inboxrow.Key(int64(op.key)))
	if err != nil || data == nil {
		return err
	}
	b, err := inboxrow.Open(int64(op.key), data)
	if err != nil {
		return err
	}
	delete(op.s.boxes, op.key)
	return b.Erase(rows)
}

func (s *Store) eraseInbox(ctx context.Context, key uint32) error {
	if !s.used.Load() {
		return nil
	}
	op := &eraseInboxOp{waitOp: newWaitOp(), s: s, key: key}
	return s.run(ctx, op, op.done, true)
}

// InboxesUsed implements inbox.Store.
func (s *Store) InboxesUsed() bool { return s.used.Load() }
