package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

const lockRecipients = "SELECT key, last_seq, copies FROM recipient WHERE key = ANY($1) ORDER BY key FOR UPDATE"

// asking collects the statements of one round trip, each with the function that reads its rows.
type asking struct {
	batch pgx.Batch
	reads []func(rows pgx.Rows) error
}

// ask adds a statement. Its arguments are read by send, so callers must not change slices among them after this call.
func (a *asking) ask(sql string, read func(rows pgx.Rows) error, args ...any) {
	a.batch.Queue(sql, args...)
	a.reads = append(a.reads, read)
}

// send runs the statements and reads their rows, in order.
func (a *asking) send(ctx context.Context, conn *pgx.Conn) (err error) {
	if len(a.reads) == 0 {
		return nil
	}
	results := conn.SendBatch(ctx, &a.batch)
	for _, read := range a.reads {
		if read == nil {
			_, err = results.Exec()
		} else {
			var rows pgx.Rows
			if rows, err = results.Query(); err == nil {
				err = read(rows)
				rows.Close()
				if err == nil {
					err = rows.Err()
				}
			}
		}
		if err != nil {
			break
		}
	}
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	return err
}

// read locks the recipients and reads the rows that are sure to be needed. Each statement has a snapshot of its own:
// statements after the lock see all commits of its former holders.
func (t *transaction) read(ctx context.Context, appends []*appendOp, settles []*mailbox.Settle) error {
	var keys []int64
	for _, b := range t.boxes {
		if b.key != 0 && b.lock {
			keys = append(keys, b.key)
			t.byKey[b.key] = b
		}
	}
	a := &asking{}
	if !t.begun {
		a.ask("BEGIN", nil)
		if len(t.l.parking.stuck) > 0 {
			a.ask(waitForStuck, nil)
		} else {
			a.ask(waitForRows, nil)
		}
	}
	if len(keys) > 0 {
		a.ask(lockRecipients, t.readLocked, keys)
	}
	ids, names, copies := t.wanted(appends)
	t.askIDs(a, ids, t.set.recent(t.l.s))
	t.askCollapsed(a, names)
	t.askInboxes(a, appends)
	byID, byPos := t.wantedSettles(settles)
	t.askIDs(a, byID, t.set.days)
	t.askOpen(a, byPos)
	if copies > 0 {
		a.ask("SELECT nextval('copy_pos') FROM generate_series(1, $1::int)", t.readPositions, copies)
	}
	if len(appends)+len(settles) == 0 {
		t.askQuick(a)
		t.askCommit(a)
	}
	if err := a.send(ctx, t.conn); err != nil {
		return err
	}
	if t.sent {
		t.settledQuickly()
	}
	var gone error
	for _, b := range t.boxes {
		if b.key != 0 && b.lock && !b.locked {
			delete(t.l.keys, b.Address)
			gone = fmt.Errorf("%s: %w", b.Recipient, errGone)
		}
	}
	return gone
}

func (t *transaction) readLocked(rows pgx.Rows) error {
	var key, seq, copies int64
	_, err := pgx.ForEachRow(rows, []any{&key, &seq, &copies}, func() error {
		b := t.byKey[key]
		b.lastSeq, b.copies, b.locked = seq, copies, true
		return nil
	})
	return err
}

func (t *transaction) readPositions(rows pgx.Rows) (err error) {
	t.next, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return err
}

// lookup is an id, or another key, to search for in a mailbox.
type lookup struct {
	b  *box
	id string
}

// wanted lists what has to be read before publishes: copies with ids that may be duplicates, copies with the same
// collapse keys, and counts of pending copies.
func (t *transaction) wanted(appends []*appendOp) (ids, collapse []lookup, copies int) {
	for _, o := range appends {
		for i := range o.parts {
			p := &o.parts[i]
			for _, n := range p.to {
				b := t.boxes[mailbox.Address{App: p.a.N.App, Recipient: p.a.To[n]}]
				if p.a.Refused == nil {
					copies++
				}
				if !p.a.Fresh {
					ids = append(ids, lookup{b, p.a.N.ID})
				}
				if p.a.N.CollapseKey != "" && p.a.Refused == nil {
					collapse = append(collapse, lookup{b, p.a.N.CollapseKey})
				}
			}
		}
	}
	return ids, collapse, copies
}

func (t *transaction) wantedSettles(settles []*mailbox.Settle) (byID []lookup, byPos []mailbox.Ref) {
	for _, q := range settles {
		b := t.boxes[mailbox.Address{App: q.App, Recipient: q.Recipient}]
		switch {
		case b.key == 0:
		case q.Pos == 0:
			byID = append(byID, lookup{b, q.ID})
		default:
			byPos = append(byPos, mailbox.Ref{App: q.App, Recipient: q.Recipient, Pos: q.Pos})
		}
	}
	return byID, byPos
}

// recent returns the days whose stub tables may hold copies that settled within DedupWindow, so that their ids are still taken.
func (set *tableSet) recent(s *Store) []int64 {
	first := dayAt(s.nowMS() - notification.DedupWindow.Milliseconds())
	from, _ := slices.BinarySearch(set.days, first)
	return set.days[from:]
}

// askIDs queries the newest copies of ids, also in the tables of these days.
func (t *transaction) askIDs(a *asking, wanted []lookup, days []int64) {
	if len(wanted) == 0 {
		return
	}
	var keys, idKeys []int64
	var ids []string
	for _, w := range wanted {
		if w.b.ids == nil {
			w.b.ids = make(map[string]*row)
		}
		if _, asked := w.b.ids[w.id]; !asked {
			w.b.ids[w.id] = nil
			keys, idKeys, ids = append(keys, w.b.key), append(idKeys, idKey(w.b.App, w.id)), append(ids, w.id)
		}
	}
	sql := t.set.text(fmt.Sprint("ids", len(days)), func() string {
		return "SELECT " + rowColumns + ` FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS q(recipient, id_key, id)
			CROSS JOIN LATERAL (SELECT * FROM (` + t.set.copies(days, "n.id_key = q.id_key AND n.recipient = q.recipient AND n.id = q.id") + `) AS c
				ORDER BY pos DESC LIMIT 1) AS x ` + t.set.standing() + " WHERE " + kept
	})
	a.ask(sql, func(rows pgx.Rows) error {
		return t.eachRow(rows, func(b *box, r *row) { b.ids[r.id] = r })
	}, keys, idKeys, ids)
}

// eachRow reads rows of rowColumns.
func (t *transaction) eachRow(rows pgx.Rows, do func(b *box, r *row)) error {
	var r row
	_, err := pgx.ForEachRow(rows, r.fields(), func() error {
		found := r
		do(t.byKey[r.recipient], &found)
		if found.open {
			t.openOf(t.byKey[r.recipient], &found)
		}
		return nil
	})
	return err
}

// askOpen queries open copies by position.
func (t *transaction) askOpen(a *asking, refs []mailbox.Ref) {
	if len(refs) == 0 {
		return
	}
	keys, positions := t.split(refs)
	a.ask(`SELECT p.recipient, p.pos, p.seq, coalesce(p.send_at, 0), p.expires_at, coalesce(p.delivered_at, 0), coalesce(p.attempts, 0), p.flags
		FROM unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos) JOIN pending p ON `+openAt,
		func(rows pgx.Rows) error {
			var r row
			_, err := pgx.ForEachRow(rows, []any{&r.recipient, &r.pos, &r.seq, &r.sendAt, &r.expires, &r.delivered, &r.attempts, &r.flags}, func() error {
				t.openOf(t.byKey[r.recipient], &r)
				return nil
			})
			return err
		}, keys, positions)
}

func (t *transaction) split(refs []mailbox.Ref) (keys, positions []int64) {
	for _, ref := range refs {
		keys = append(keys, t.boxes[mailbox.Address{App: ref.App, Recipient: ref.Recipient}].key)
		positions = append(positions, ref.Pos)
	}
	return keys, positions
}

// askCollapsed queries the open copies that newer ones with the same collapse key replace.
func (t *transaction) askCollapsed(a *asking, wanted []lookup) {
	if len(wanted) == 0 {
		return
	}
	var keys []int64
	var hashes []int32
	asked := make(map[lookup]bool)
	for _, w := range wanted {
		if !asked[w] {
			asked[w] = true
			keys, hashes = append(keys, w.b.key), append(hashes, collapseHash(w.id))
		}
	}
	sql := t.set.text("collapsed", func() string {
		return `SELECT DISTINCT p.recipient, p.pos, p.seq, coalesce(p.send_at, 0), p.expires_at, coalesce(p.delivered_at, 0), coalesce(p.attempts, 0), p.flags, x.id, x.collapse_key
			FROM unnest($1::bigint[], $2::integer[]) AS q(recipient, collapse) JOIN pending p ON p.recipient = ANY(ARRAY[q.recipient]) AND p.collapse = q.collapse
			CROSS JOIN LATERAL (` + all(t.set.hours, "SELECT n.id, n.collapse_key FROM note_%[1]d n WHERE n.recipient = p.recipient AND n.pos = p.pos") + `) AS x
			ORDER BY p.recipient, p.pos`
	})
	a.ask(sql, func(rows pgx.Rows) error {
		var r row
		var key string
		_, err := pgx.ForEachRow(rows, []any{&r.recipient, &r.pos, &r.seq, &r.sendAt, &r.expires, &r.delivered, &r.attempts, &r.flags, &r.id, &key}, func() error {
			b := t.byKey[r.recipient]
			o := t.openOf(b, &r)
			o.collapse = key
			b.collapse = append(b.collapse, o)
			return nil
		})
		return err
	}, keys, hashes)
}

// readMore sends the queries that depend on the first results: whether a mailbox may be full, the state of settled copies, and the
// acknowledgements of devices.
func (t *transaction) readMore(ctx context.Context, settles []*mailbox.Settle) error {
	a := &asking{}
	t.askCounts(a)
	var settled []mailbox.Ref
	var nacked, all []*open
	for _, q := range settles {
		o := t.openFor(q)
		switch {
		case o == nil && q.Pos != 0 && t.boxes[mailbox.Address{App: q.App, Recipient: q.Recipient}].key != 0:
			settled = append(settled, mailbox.Ref{App: q.App, Recipient: q.Recipient, Pos: q.Pos})
		case o == nil:
		case q.Nack:
			nacked = append(nacked, o)
		case q.As == notification.Acked && o.flags.ack() == notification.AckAll:
			all = append(all, o)
		}
	}
	t.askSettled(a, settled)
	t.askNacks(a, nacked)
	t.askDevices(a, all)
	return a.send(ctx, t.conn)
}

// askCounts counts the pending copies of recipients that may have too many. Since the last count a mailbox can only have grown by the
// copies stored since then, so this query is rare.
func (t *transaction) askCounts(a *asking) {
	var keys []int64
	for _, b := range t.boxes {
		if b.adds > 0 && b.copies+int64(b.adds) > t.l.roomOf(b.key) {
			keys = append(keys, b.key)
			b.counted = true
		}
	}
	if len(keys) == 0 {
		return
	}
	a.ask("SELECT recipient, count(*) FROM pending WHERE recipient = ANY($1) GROUP BY recipient", func(rows pgx.Rows) error {
		var key, n int64
		_, err := pgx.ForEachRow(rows, []any{&key, &n}, func() error {
			t.byKey[key].pending = int(n)
			return nil
		})
		if len(t.l.room) > maxKeys/t.l.s.cfg.Lanes {
			clear(t.l.room)
		}
		for _, key := range keys {
			b := t.byKey[key]
			t.l.room[key] = b.copies + int64(t.l.s.cfg.MaxPending-b.pending)
		}
		return err
	}, keys)
}

// askSettled queries copies that are not open, by position.
func (t *transaction) askSettled(a *asking, refs []mailbox.Ref) {
	if len(refs) == 0 {
		return
	}
	keys, positions := t.split(refs)
	t.closed = make(map[int64]*row)
	sql := t.set.text("settled", func() string {
		return "SELECT " + rowColumns + ` FROM unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos)
			CROSS JOIN LATERAL (` + t.set.copies(t.set.days, "n.recipient = q.recipient AND n.pos = q.pos") + ") AS x " + t.set.standing() + " WHERE " + kept
	})
	a.ask(sql, func(rows pgx.Rows) error {
		return t.eachRow(rows, func(_ *box, r *row) { t.closed[r.pos] = r })
	}, keys, positions)
}

// nack records how often clients have rejected a copy, and why.
type nack struct {
	box    *box
	count  int32
	reason string
	at     int64
}

func openKeys(list []*open) (keys, positions []int64) {
	for _, o := range list {
		keys, positions = append(keys, o.box.key), append(positions, o.pos)
	}
	return keys, positions
}

func (t *transaction) askNacks(a *asking, of []*open) {
	if len(of) == 0 {
		return
	}
	t.nacks = make(map[int64]*nack)
	for _, o := range of {
		t.nacks[o.pos] = &nack{box: o.box}
	}
	keys, positions := openKeys(of)
	a.ask("SELECT n.pos, n.count, n.reason FROM unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos) JOIN nack n ON n.recipient = q.recipient AND n.pos = q.pos",
		func(rows pgx.Rows) error {
			var pos int64
			var n nack
			_, err := pgx.ForEachRow(rows, []any{&pos, &n.count, &n.reason}, func() error {
				t.nacks[pos].count, t.nacks[pos].reason = n.count, n.reason
				return nil
			})
			return err
		}, keys, positions)
}

// askDevices queries the devices of the copies' recipients, and which of them have acknowledged copies that every device must acknowledge.
func (t *transaction) askDevices(a *asking, of []*open) {
	if len(of) == 0 {
		return
	}
	t.acks = make(map[int64]map[string]int64)
	for _, o := range of {
		t.acks[o.pos] = make(map[string]int64)
	}
	keys, positions := openKeys(of)
	var key, at int64
	var name string
	a.ask("SELECT d.pos, d.device, d.at FROM unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos) JOIN device_ack d ON d.recipient = q.recipient AND d.pos = q.pos",
		func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&key, &name, &at}, func() error {
				t.acks[key][name] = at
				return nil
			})
			return err
		}, keys, positions)
	a.ask("SELECT recipient, name, last_seen FROM device WHERE recipient = ANY($1)", func(rows pgx.Rows) error {
		var d device
		_, err := pgx.ForEachRow(rows, []any{&key, &d.name, &d.seen}, func() error {
			t.byKey[key].devices = append(t.byKey[key].devices, d)
			return nil
		})
		return err
	}, slices.Compact(slices.Sorted(slices.Values(keys))))
}
