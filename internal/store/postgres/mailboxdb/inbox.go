package mailboxdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/millis"
)

var _ inbox.Store = (*Store)(nil)

// inboxes are the inboxes that a transaction changes. Heads are read with the rest of what a commit needs, in the same round trip; parts, which
// few commits need, in one more each. All writes go with the commit's last round trip.
type inboxes struct {
	conn *pgx.Conn
	ctx  context.Context // of the transaction, for reads of parts

	heads    map[int64]*inboxrow.Box // by recipient
	rows     map[int64]inboxRow      // read or written, by key
	released map[int64]int32         // entries gone, by content
	kept     struct {
		pos  []int64
		refs []int32
		body [][]byte
	}
}

type inboxRow struct {
	data    []byte // nil: there is no row
	due     int64
	written bool
}

// Read implements inboxrow.Rows.
func (in *inboxes) Read(key int64) ([]byte, error) {
	if row, ok := in.rows[key]; ok {
		return row.data, nil
	}
	var data []byte
	err := in.conn.QueryRow(in.ctx, selectInbox, key).Scan(&data)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	in.set(key, inboxRow{data: data})
	return data, nil
}

const selectInbox = "SELECT data FROM inbox WHERE key = $1"

func (in *inboxes) set(key int64, row inboxRow) {
	if in.rows == nil {
		in.rows = make(map[int64]inboxRow)
	}
	in.rows[key] = row
}

// Write implements inboxrow.Rows.
func (in *inboxes) Write(row inboxrow.Row) error {
	in.set(row.Key, inboxRow{data: bytes.Clone(row.Data), due: row.Due, written: true})
	return nil
}

// Delete implements inboxrow.Rows.
func (in *inboxes) Delete(key int64) error {
	in.set(key, inboxRow{written: true})
	return nil
}

// Release implements inboxrow.Rows.
func (in *inboxes) Release(at int64) error {
	if in.released == nil {
		in.released = make(map[int64]int32)
	}
	in.released[at]++
	return nil
}

// of returns a recipient's inbox.
func (in *inboxes) of(recipient int64) (*inboxrow.Box, error) {
	if b := in.heads[recipient]; b != nil {
		return b, nil
	}
	data, err := in.Read(inboxrow.Key(recipient))
	if err != nil {
		return nil, err
	}
	b, err := inboxrow.Open(recipient, data)
	if err != nil {
		return nil, err
	}
	if in.heads == nil {
		in.heads = make(map[int64]*inboxrow.Box)
	}
	in.heads[recipient] = b
	return b, nil
}

// askInboxes reads the heads of inboxes that publishes change.
func (t *transaction) askInboxes(a *asking, appends []*appendOp) {
	var keys []int64
	for _, o := range appends {
		for i := range o.parts {
			n := o.parts[i].a.N
			if n.Content.Inbox == nil && n.CollapseKey == "" || o.parts[i].a.Refused != nil {
				continue
			}
			for _, to := range o.parts[i].to {
				key := inboxrow.Key(t.boxes[mailbox.Address{App: n.App, Recipient: o.parts[i].a.To[to]}].key)
				if _, asked := t.inboxes.rows[key]; !asked {
					t.inboxes.set(key, inboxRow{})
					keys = append(keys, key)
				}
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	a.ask("SELECT key, data FROM inbox WHERE key = ANY($1)", func(rows pgx.Rows) error {
		var key int64
		var data []byte
		_, err := pgx.ForEachRow(rows, []any{&key, &data}, func() error {
			t.inboxes.set(key, inboxRow{data: slices.Clone(data)})
			return nil
		})
		return err
	}, keys)
}

// keep puts a copy into its recipient's inbox, with the content at a position and a time.
func (t *transaction) keep(b *box, n *notification.Notification, at, since int64) error {
	in, err := t.inboxes.of(b.key)
	if err != nil {
		return err
	}
	return in.Add(&t.inboxes, inboxrow.New{
		ID: n.ID, Category: n.Content.Category, CollapseKey: n.CollapseKey, Content: at, CreatedAt: since, Keep: n.Content.Inbox.Keep,
	})
}

func (in *inboxes) keepContent(at int64, copies int, body []byte) {
	in.kept.pos, in.kept.refs, in.kept.body = append(in.kept.pos, at), append(in.kept.refs, int32(copies)), append(in.kept.body, body) // a thousand at most
}

// unkeep removes what a newer notification replaces although that is not for the inbox itself.
func (t *transaction) unkeep(b *box, collapseKey string) error {
	in, err := t.inboxes.of(b.key)
	if err != nil {
		return err
	}
	return in.Replace(&t.inboxes, collapseKey)
}

// keepDue puts a scheduled copy that has become due into its recipient's inbox.
func (t *transaction) keepDue(it *mailbox.Item, key, now int64) error {
	body, _ := content.Encode(&it.N.Content)
	t.inboxes.keepContent(it.Pos, 1, content.Kept(&it.N.Content, body))
	b := t.box(it.N.App, it.Recipient)
	b.key = key
	return t.keep(b, it.N, it.Pos, now)
}

// askInboxWrites queues the writes of inboxes that have changed.
func (t *transaction) askInboxWrites(a *asking) error {
	in := &t.inboxes
	if len(in.heads) == 0 {
		return nil
	}
	now := t.l.s.now()
	owners := make(map[int64]mailbox.Address, len(t.boxes))
	for who, b := range t.boxes {
		owners[b.key] = who
	}
	for _, key := range slices.Sorted(maps.Keys(in.heads)) {
		if !in.heads[key].Dirty() {
			continue
		}
		c, err := in.heads[key].Flush(in, now)
		if err != nil {
			return err
		}
		c.App, c.Recipient = owners[key].App, owners[key].Recipient
		t.tell.Inboxes = append(t.tell.Inboxes, c)
	}
	in.ask(a)
	return nil
}

// ask queues the writes of rows and contents.
func (in *inboxes) ask(a *asking) {
	if len(in.kept.pos) > 0 {
		a.ask("INSERT INTO inbox_content (pos, refs, body) SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[])", nil, in.kept.pos, in.kept.refs, in.kept.body)
	}
	var keys, dues, gone []int64
	var data [][]byte
	for _, key := range slices.Sorted(maps.Keys(in.rows)) {
		switch row := in.rows[key]; {
		case !row.written:
		case row.data == nil:
			gone = append(gone, key)
		default:
			keys, dues, data = append(keys, key), append(dues, row.due), append(data, row.data)
		}
	}
	if len(keys) > 0 {
		a.ask(`INSERT INTO inbox (key, due, data) SELECT key, nullif(due, 0), data FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS q(key, due, data)
			ON CONFLICT (key) DO UPDATE SET due = excluded.due, data = excluded.data`, nil, keys, dues, data)
	}
	if len(gone) > 0 {
		a.ask("DELETE FROM inbox WHERE key = ANY($1)", nil, gone)
	}
	if len(in.released) > 0 {
		contents := slices.Sorted(maps.Keys(in.released))
		times := make([]int32, len(contents))
		for i, at := range contents {
			times[i] = in.released[at]
		}
		a.ask("SELECT pos FROM inbox_content WHERE pos = ANY($1) ORDER BY pos FOR UPDATE", func(rows pgx.Rows) error { return nil }, contents)
		a.ask(`WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::integer[]) AS q(pos, n)), gone AS (
				DELETE FROM inbox_content c USING q WHERE c.pos = q.pos AND c.refs <= q.n
			)
			UPDATE inbox_content c SET refs = c.refs - q.n FROM q WHERE c.pos = q.pos AND c.refs > q.n`, nil, contents, times)
	}
}

// inInbox does something with a recipient's inbox on its lane, in a transaction of its own; nothing if there is no such recipient.
func (s *Store) inInbox(ctx context.Context, app, recipient string, do func(b *inboxrow.Box, rows inboxrow.Rows) error) error {
	l := s.lanes[s.laneOf(app, recipient)]
	return s.inLanes(ctx, []*lane{l}, func(*lane) upkeep {
		return func(ctx context.Context, tx pgx.Tx, set *tableSet, did *outcome) error {
			t := newTransaction(l, tx.Conn(), set)
			t.inboxes.ctx = ctx
			b := t.box(app, recipient)
			if err := readKeys(ctx, tx.Conn(), []*box{b}); err != nil || b.key == 0 {
				return err
			}
			tag, err := tx.Exec(ctx, lockRecipients, []int64{b.key})
			if err != nil || tag.RowsAffected() == 0 { // erased meanwhile
				return err
			}
			in, err := t.inboxes.of(b.key)
			if err == nil {
				err = do(in, &t.inboxes)
			}
			if err != nil {
				return err
			}
			a := &asking{}
			if err := t.askInboxWrites(a); err != nil {
				return err
			}
			*did = t.outcome
			return a.send(ctx, tx.Conn())
		}
	})
}

// MarkInbox implements inbox.Store.
func (s *Store) MarkInbox(ctx context.Context, app, recipient string, m inbox.Mark) (counts inbox.Counts, err error) {
	n := 0
	err = s.inInbox(ctx, app, recipient, func(b *inboxrow.Box, rows inboxrow.Rows) (err error) {
		if n, err = b.Mark(rows, &m); err == nil {
			counts = b.Counts()
		}
		return err
	})
	if err != nil {
		return counts, s.storeError("change the inbox of "+recipient, err)
	}
	if n == 0 && m.ID != "" {
		return counts, fmt.Errorf("notification %s of %s: %w", m.ID, recipient, inbox.ErrNotFound)
	}
	return counts, nil
}

// LeaveInbox implements inbox.Store.
func (s *Store) LeaveInbox(ctx context.Context, app, id string, recipients []string) (n int, err error) {
	for _, name := range recipients {
		left := 0
		err := s.inInbox(ctx, app, name, func(b *inboxrow.Box, rows inboxrow.Rows) (err error) {
			left, err = b.Remove(rows, id)
			return err
		})
		if err != nil {
			return n, s.storeError("take notification "+id+" out of inboxes", err)
		}
		n += min(left, 1)
	}
	return n, nil
}

// sweepSlice is how many inboxes one call of SweepInboxes looks through.
const sweepSlice = 100

// SweepInboxes implements inbox.Store. Nodes that sweep at the same time find what others have swept already.
func (s *Store) SweepInboxes(ctx context.Context, now time.Time) (n int, more bool, err error) {
	rows, err := s.db.Pool().Query(ctx, `SELECT a.name, r.name FROM (SELECT key >> 12 AS key FROM inbox WHERE due <= $1 ORDER BY due LIMIT $2) AS i
		JOIN recipient r ON r.key = i.key JOIN app a ON a.key = r.app`, millis.Of(now)/time.Minute.Milliseconds(), sweepSlice)
	if err != nil {
		return 0, false, s.storeError("find what inboxes keep no more", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (who mailbox.Address, err error) {
		return who, row.Scan(&who.App, &who.Recipient)
	})
	if err != nil {
		return 0, false, s.storeError("find what inboxes keep no more", err)
	}
	for _, who := range due {
		gone := 0
		err := s.inInbox(ctx, who.App, who.Recipient, func(b *inboxrow.Box, rows inboxrow.Rows) (err error) {
			gone, err = b.Expire(rows, now)
			return err
		})
		if err != nil {
			return n, false, s.storeError("remove what inboxes keep no more", err)
		}
		n += gone
	}
	return n, len(due) == sweepSlice, nil
}

// eraseInbox deletes an erased recipient's inbox.
func eraseInbox(ctx context.Context, tx pgx.Tx, key int64) error {
	in := &inboxes{conn: tx.Conn(), ctx: ctx}
	data, err := in.Read(inboxrow.Key(key))
	if err != nil || data == nil {
		return err
	}
	b, err := inboxrow.Open(key, data)
	if err != nil {
		return err
	}
	if err := b.Erase(in); err != nil {
		return err
	}
	a := &asking{}
	in.ask(a)
	return a.send(ctx, tx.Conn())
}

// InboxesUsed implements inbox.Store. Another node's first item is known here some seconds later.
func (s *Store) InboxesUsed() bool { return s.used.Load() }

// lookUsed looks whether inboxes are in use.
func (s *Store) lookUsed(ctx context.Context) error {
	if s.used.Load() {
		return nil
	}
	var used bool
	err := s.db.Pool().QueryRow(ctx, "SELECT EXISTS (SELECT FROM inbox)").Scan(&used)
	if used {
		s.used.Store(true)
	}
	return err
}
