package mailboxdb

import (
	"context"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

// writes holds the rows that a commit writes, as columns.
type writes struct {
	notes struct {
		pos, recipient, seq, idKey, created, sendAt, expires, hash, content []int64
		bytes, collapse                                                     []int32
		flags                                                               []int16
		id, collapseKey                                                     []string
		body                                                                [][]byte
	}
	contents struct {
		key  []int64
		body [][]byte
	}
	settled struct {
		recipient, pos, at, delivered []int64
		attempts                      []int32
		status                        []int16
	}
	steps struct {
		recipient, pos, due, from []int64
		plan                      [][]byte
	}
	stepless struct{ recipient, pos []int64 } // that have settled
	forgot   []forgotten
	marks    []*open
	acks     []deviceAck
	unacked  []*open
	replies  []reply
	revived  []*row
	tried    tried
}

type deviceAck struct {
	*open
	device string
	at     int64
}

// forgotten names an id whose copies in a mailbox are to be deleted.
type forgotten struct {
	*box
	id    string
	idKey int64
}

type reply struct {
	b   *box
	pos int64
	at  int64
	*notification.Reply
}

func (w *writes) note(o *open, n *notification.Notification, p *prepared, shared *int64) {
	c := &w.notes
	content, body := int64(0), p.body
	if shared != nil {
		content, body = *shared, nil
	}
	c.pos, c.recipient, c.seq = append(c.pos, o.pos), append(c.recipient, o.box.key), append(c.seq, o.seq)
	c.idKey, c.created, c.sendAt = append(c.idKey, p.idKey), append(c.created, millis.Of(n.CreatedAt)), append(c.sendAt, o.sendAt)
	c.expires, c.hash, c.content = append(c.expires, o.expires), append(c.hash, p.hash), append(c.content, content)
	c.bytes = append(c.bytes, contentBytes(n))
	c.collapse, c.flags = append(c.collapse, collapseHash(n.CollapseKey)), append(c.flags, int16(o.flags))
	c.id, c.collapseKey, c.body = append(c.id, n.ID), append(c.collapseKey, n.CollapseKey), append(c.body, body)
}

// contentBytes is the size of a content for readers that stop in time.
func contentBytes(n *notification.Notification) int32 {
	return int32(len(n.Content.Title) + len(n.Content.Body) + len(n.Content.Data)) // below 256 KB
}

func (w *writes) content(key int64, body []byte) {
	w.contents.key, w.contents.body = append(w.contents.key, key), append(w.contents.body, body)
}

func (w *writes) settle(o *open) {
	c := &w.settled
	c.recipient, c.pos, c.at = append(c.recipient, o.box.key), append(c.pos, o.pos), append(c.at, o.at)
	c.delivered, c.attempts, c.status = append(c.delivered, o.delivered), append(c.attempts, o.attempts), append(c.status, int16(o.as))
}

func (w *writes) mark(o *open) {
	if !o.scheduled() && (o.delivered > 0 || o.attempts > 0) {
		w.marks = append(w.marks, o)
	}
}

func (w *writes) forget(b *box, id string, idKey int64) {
	w.forgot = append(w.forgot, forgotten{b, id, idKey})
}

func (w *writes) deviceAck(o *open, device string, at int64) {
	w.acks = append(w.acks, deviceAck{o, device, at})
}

func (w *writes) forgetAcks(o *open) { w.unacked = append(w.unacked, o) }
func (w *writes) revive(r *row)      { w.revived = append(w.revived, r) }
func (w *writes) reply(b *box, pos, at int64, r *notification.Reply) {
	w.replies = append(w.replies, reply{b, pos, at, r})
}

const (
	insertNotes = `WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[], $9::bigint[], $10::integer[], $11::integer[], $12::smallint[], $13::text[], $14::text[], $15::bytea[])
		AS q(pos, recipient, seq, id_key, created_at, send_at, expires_at, hash, content, bytes, collapse, flags, id, collapse_key, body)
	), p AS (
		INSERT INTO pending (recipient, pos, seq, expires_at, send_at, bytes, collapse, flags)
		SELECT recipient, pos, seq, expires_at, nullif(send_at, 0), bytes, nullif(collapse, 0), flags FROM q
	)
	INSERT INTO note_%d (pos, recipient, seq, id_key, created_at, send_at, expires_at, hash, content, flags, id, collapse_key, body)
	SELECT pos, recipient, seq, id_key, created_at, nullif(send_at, 0), expires_at, hash, nullif(content, 0), flags, id, nullif(collapse_key, ''), body FROM q`
	insertContents  = "INSERT INTO content_%d (key, body) SELECT * FROM unnest($1::bigint[], $2::bytea[])"
	countRecipients = `UPDATE recipient r SET last_seq = q.seq, copies = q.copies
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(key, seq, copies) WHERE r.key = q.key`
	// Whichever transaction deletes the pending row of a copy has settled the copy. Acknowledgements may do so without the recipient's
	// lock, so only this statement finds out whether a copy is still open: it returns the copies that this commit has settled.
	settlePending = `WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[])
		AS q(recipient, pos, settled_at, delivered_at, attempts, status)
	), p AS (
		DELETE FROM pending p USING q WHERE ` + openAt + `
		RETURNING p.pos, q.settled_at, coalesce(p.delivered_at, nullif(q.delivered_at, 0)) AS delivered_at, CASE WHEN p.send_at > 0 THEN p.seq END AS seq,
			greatest(p.attempts, q.attempts) AS attempts, q.status
	)
	INSERT INTO done_%d (pos, settled_at, delivered_at, seq, attempts, status) SELECT pos, settled_at, delivered_at, seq, attempts, status FROM p RETURNING pos`
	// settleQuickly does the same for plain acknowledgements. It settles only copies that are due and not expired, have the given ack mode
	// and have no escalation steps.
	settleQuickly = `WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $7::smallint[])
		AS q(recipient, pos, settled_at, delivered_at, attempts, status, mode)
	), p AS (
		DELETE FROM pending p USING q WHERE ` + openAt + ` AND p.seq > 0 AND p.expires_at + 0 > q.settled_at AND p.flags & %[2]d = q.mode
		RETURNING p.pos, q.settled_at, coalesce(p.delivered_at, nullif(q.delivered_at, 0)) AS delivered_at, CASE WHEN p.send_at > 0 THEN p.seq END AS seq,
			greatest(p.attempts, q.attempts) AS attempts, q.status
	)
	INSERT INTO done_%[1]d (pos, settled_at, delivered_at, seq, attempts, status) SELECT pos, settled_at, delivered_at, seq, attempts, status FROM p RETURNING pos`
)

// write writes everything in one round trip and commits.
func (t *transaction) write(ctx context.Context) error {
	w, a := &t.out, &asking{}
	t.askQuick(a) // in this last round trip, so that only recipients' rows stay locked between the round trips
	t.askForgotten(a)
	if c := &w.contents; len(c.key) > 0 {
		a.ask(fmt.Sprintf(insertContents, t.hour), nil, c.key, c.body)
	}
	if c := &w.notes; len(c.pos) > 0 {
		a.ask(fmt.Sprintf(insertNotes, t.hour), nil, c.pos, c.recipient, c.seq, c.idKey, c.created, c.sendAt, c.expires, c.hash, c.content, c.bytes, c.collapse,
			c.flags, c.id, c.collapseKey, c.body)
		t.askSteps(a)
		t.askCounters(a)
	}
	t.askSettles(a)
	t.askRare(a)
	if err := t.askInboxWrites(a); err != nil {
		return err
	}
	t.askCommit(a)
	if err := a.send(ctx, t.conn); err != nil {
		return err
	}
	t.settledQuickly()
	t.settledNow()
	return nil
}

func (t *transaction) askCommit(a *asking) {
	t.askTried(a)
	t.askTrace(a)
	a.ask("COMMIT", nil)
	t.sent = true
}

// askForgotten deletes copies by id, before new ones are written.
func (t *transaction) askForgotten(a *asking) {
	const where = " WHERE recipient = $1 AND id_key = $2 AND id = $3"
	for _, f := range t.out.forgot {
		for _, h := range t.set.hours {
			a.ask(fmt.Sprintf("DELETE FROM note_%d%s", h, where), nil, f.key, f.idKey, f.id)
		}
		for _, d := range t.set.days {
			a.ask(fmt.Sprintf("DELETE FROM stub_%d%s", d, where), nil, f.key, f.idKey, f.id)
		}
	}
}

func (t *transaction) askSettles(a *asking) {
	if c := &t.out.settled; len(c.pos) > 0 {
		a.ask(fmt.Sprintf(settlePending, t.hour), t.readGone, c.recipient, c.pos, c.at, c.delivered, c.attempts, c.status)
	}
}

func (t *transaction) askCounters(a *asking) {
	var keys, seqs, copies []int64
	for _, b := range t.boxes {
		if b.changed {
			keys, seqs, copies = append(keys, b.key), append(seqs, b.lastSeq), append(copies, b.copies)
		}
	}
	a.ask(countRecipients, nil, keys, seqs, copies)
}

// askRare queues the writes that most commits do not need.
func (t *transaction) askRare(a *asking) {
	w := &t.out
	for _, o := range w.marks {
		a.ask(markPending, nil, o.box.key, o.pos, o.delivered, o.attempts)
	}
	for _, d := range w.acks {
		a.ask("INSERT INTO device_ack (recipient, pos, device, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", nil, d.box.key, d.pos, d.device, d.at)
	}
	for _, o := range w.unacked {
		a.ask("DELETE FROM device_ack WHERE recipient = $1 AND pos = $2", nil, o.box.key, o.pos)
	}
	t.askStepless(a)
	for pos, n := range t.nacks {
		if n.at > 0 {
			a.ask(`INSERT INTO nack (recipient, pos, count, at, reason) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (recipient, pos) DO UPDATE SET count = excluded.count, at = excluded.at, reason = excluded.reason`,
				nil, n.box.key, pos, n.count, n.at, printable(n.reason))
		}
	}
	for _, r := range w.replies {
		data := r.Data
		if data == nil {
			data = []byte{}
		}
		a.ask(`INSERT INTO reply (recipient, pos, at, status, content_type, data) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (recipient, pos) DO NOTHING`, nil, r.b.key, r.pos, r.at, r.Status, printable(r.ContentType), data)
	}
	for _, r := range w.revived {
		t.askRevive(a, r)
	}
}

const markPending = `UPDATE pending SET delivered_at = coalesce(delivered_at, nullif($3::bigint, 0)), attempts = greatest(attempts, $4::integer)
	WHERE recipient = $1 AND pos = $2`

// askRevive changes the outcome of a settled copy. If another node is sealing the copy's hour, the DELETE, which deletes nothing, waits for
// that node's lock on the table; the table is gone afterwards and the statement fails.
func (t *transaction) askRevive(a *asking, r *row) {
	const set = " SET status = $2, settled_at = $3, delivered_at = $4, attempts = $5 WHERE pos = $1"
	if r.src < 0 {
		a.ask(fmt.Sprintf("UPDATE stub_%d%s AND recipient = $6", -r.src, set), nil, r.pos, r.status, r.settled, r.delivered, r.attempts, r.recipient)
		return
	}
	a.ask(fmt.Sprintf("DELETE FROM note_%d WHERE false", r.src), nil)
	for _, h := range t.set.dones {
		a.ask(fmt.Sprintf("UPDATE done_%d%s", h, set), nil, r.pos, r.status, r.settled, r.delivered, r.attempts)
	}
}

// printable replaces the characters of a client's text that the database does not store.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}
