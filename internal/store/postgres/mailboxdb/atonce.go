package mailboxdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

// Most publishes need no decision: the server has just made the id, and nothing is replaced, scheduled, gathered or escalated. If a commit
// has only such publishes, to a recipient each, and plain acknowledgements, it takes one round trip instead of two: one statement raises the
// recipients' counters, which locks their rows, and inserts the copies. Recipients whose mailbox may be full, and those that are gone, are
// passed over; their publishes are stored in a second commit, of two round trips.

// atOnce is a copy that is stored in one round trip.
type atOnce struct {
	item mailbox.Item // without position and seq until the commit
	key  int64        // of the recipient
	part *part        // nil in an unsure commit
}

// plain reports whether all parts can be stored in one round trip.
func (o *appendOp) plain() bool {
	for i := range o.parts {
		p := &o.parts[i]
		n := p.a.N
		if o.slow || len(p.to) > 1 || !p.a.Fresh || p.a.Refused != nil || n.CollapseKey != "" || n.Steps != nil || n.Content.Inbox != nil || !n.SendAt.IsZero() {
			return false
		}
	}
	return true
}

// oneTrip reports whether the transaction can store all publishes in one round trip: nothing else needs a recipient's lock, so locks are
// taken in the order of keys also here.
func (t *transaction) oneTrip(appends []*appendOp, settles []*mailbox.Settle) bool {
	if len(appends) == 0 || len(settles) > 0 || t.begun || len(t.l.parking.stuck)+len(t.l.parking.ops) > 0 {
		return false
	}
	if !slices.ContainsFunc(appends, func(o *appendOp) bool { return !o.plain() }) {
		for _, b := range t.boxes {
			if b.adds > 1 {
				return false
			}
		}
		return true
	}
	return false
}

// publishAtOnce needs its rows in the order of recipients. A join reads them in this order, so recipients are locked in it.
const publishAtOnce = `WITH u AS (
		UPDATE recipient r SET last_seq = r.last_seq + 1, copies = r.copies + 1
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::smallint[], $9::text[], $10::bytea[])
			AS q(recipient, room, id_key, created_at, expires_at, hash, bytes, flags, id, body)
		WHERE r.key = q.recipient AND r.copies < q.room
		RETURNING q.*, r.last_seq AS seq
	), q AS MATERIALIZED (SELECT u.*, nextval('copy_pos') AS pos FROM u), p AS (
		INSERT INTO pending (recipient, pos, seq, expires_at, bytes, flags) SELECT recipient, pos, seq, expires_at, bytes, flags FROM q
	), n AS (
		INSERT INTO note_%d (pos, recipient, seq, id_key, created_at, expires_at, hash, flags, id, body)
		SELECT pos, recipient, seq, id_key, created_at, expires_at, hash, flags, id, body FROM q
	)
	SELECT recipient, pos, seq FROM q`

// storeAtOnce stores publishes, settles plain acknowledgements and commits, in one round trip.
func (t *transaction) storeAtOnce(ctx context.Context, appends []*appendOp) error {
	a := &asking{}
	a.ask("BEGIN", nil)
	a.ask(waitForRows, nil)
	t.askAtOnce(a, appends)
	t.askQuick(a) // after the recipients' locks, as everywhere
	t.askCommit(a)
	if err := a.send(ctx, t.conn); err != nil {
		return err
	}
	t.storedAtOnce()
	t.leave(appends)
	t.settledQuickly()
	return nil
}

func (t *transaction) askAtOnce(a *asking, appends []*appendOp) {
	for _, o := range appends {
		for i := range o.parts {
			p := &o.parts[i]
			to := p.a.To[p.to[0]]
			t.once = append(t.once, atOnce{
				item: mailbox.Item{Recipient: to, N: p.a.N}, key: t.boxes[mailbox.Address{App: p.a.N.App, Recipient: to}].key, part: p,
			})
		}
	}
	slices.SortFunc(t.once, func(p, q atOnce) int { return cmp.Compare(p.key, q.key) })
	var keys, room, idKeys, created, expires, hash []int64
	var bytes []int32
	var kinds []int16
	var ids []string
	var bodies [][]byte
	for _, c := range t.once {
		n, prep := c.item.N, c.part.prep
		keys, room = append(keys, c.key), append(room, t.l.roomOf(c.key))
		idKeys, created, expires = append(idKeys, prep.idKey), append(created, millis.Of(n.CreatedAt)), append(expires, millis.Of(n.ExpiresAt))
		hash, bytes, kinds = append(hash, prep.hash), append(bytes, contentBytes(n)), append(kinds, int16(flagsOf(n)))
		ids, bodies = append(ids, n.ID), append(bodies, prep.body)
	}
	a.ask(fmt.Sprintf(publishAtOnce, t.hour), t.readStored, keys, room, idKeys, created, expires, hash, bytes, kinds, ids, bodies)
}

// roomOf returns the number of copies, ever stored, up to which a recipient's mailbox cannot be full.
func (l *lane) roomOf(key int64) int64 { return max(l.room[key], int64(l.s.cfg.MaxPending)) }

// readStored reads the positions of copies that were stored at once, each of another recipient.
func (t *transaction) readStored(rows pgx.Rows) error {
	places := make(map[int64][2]int64, len(t.once))
	var key, pos, seq int64
	_, err := pgx.ForEachRow(rows, []any{&key, &pos, &seq}, func() error {
		places[key] = [2]int64{pos, seq}
		return nil
	})
	for i := range t.once {
		c := &t.once[i]
		c.item.Pos, c.item.Seq = places[c.key][0], uint64(places[c.key][1]) // counts from 0
	}
	return err
}

// storedAtOnce reports the copies that have a position.
func (t *transaction) storedAtOnce() {
	for _, c := range t.once {
		if c.item.Pos == 0 {
			continue
		}
		if c.part != nil {
			c.part.a.Results[c.part.to[0]] = mailbox.AppendResult{Status: notification.Stored, ExpiresAt: c.item.N.ExpiresAt}
		}
		t.pending++
		t.tell.Stored = append(t.tell.Stored, c.item)
	}
}

// leave keeps, of each operation, the parts that were passed over, for a commit of two round trips.
func (t *transaction) leave(appends []*appendOp) {
	over := make(map[*part]bool)
	for _, c := range t.once {
		if c.item.Pos == 0 {
			over[c.part] = true
		}
	}
	if len(over) == 0 {
		return
	}
	for _, o := range appends {
		var rest []part
		for i := range o.parts {
			if over[&o.parts[i]] {
				rest = append(rest, o.parts[i])
			}
		}
		if len(rest) > 0 {
			o.parts, o.slow = rest, true
			t.left = append(t.left, o)
		}
	}
}

// storedWith finds the copies that the commit with a trace has stored at once.
const storedWith = `SELECT n.recipient, n.pos, n.seq FROM done_%[1]d m JOIN note_%[1]d n ON n.xmin = m.xmin
	WHERE m.pos = $1 AND n.recipient = ANY($2) AND n.id_key = ANY($3)`

// askStoredWith queues it, for a commit whose answer was lost.
func (t *transaction) askStoredWith(a *asking) {
	if len(t.once) == 0 {
		return
	}
	var keys, idKeys []int64
	for _, c := range t.once {
		keys, idKeys = append(keys, c.key), append(idKeys, idKey(c.item.N.App, c.item.N.ID))
	}
	a.ask(fmt.Sprintf(storedWith, t.trace.hour), t.readStored, t.trace.pos, keys, idKeys)
}
