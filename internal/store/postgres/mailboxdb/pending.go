package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

const (
	pendingChunk = 256  // queries answered in one snapshot
	pendingLimit = 1000 // copies in one answer if the query gives no limit
	headsChunk   = 1024 // recipients of one read
)

// Heads implements mailbox.Reader. It reads each recipient's row and one index entry.
func (s *Store) Heads(ctx context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	heads := make([]mailbox.Head, len(of))
	for from := 0; from < len(of); from += headsChunk {
		if err := s.readHeads(ctx, of[from:min(len(of), from+headsChunk)], heads[from:]); err != nil {
			return nil, s.storeError("look at the heads of mailboxes", err)
		}
	}
	return heads, nil
}

func (s *Store) readHeads(ctx context.Context, of []mailbox.Address, heads []mailbox.Head) error {
	apps, names := make([]string, len(of)), make([]string, len(of))
	for i, a := range of {
		apps[i], names[i] = a.App, a.Recipient
	}
	rows, err := s.db.Pool().Query(ctx, `SELECT q.n, r.last_seq, EXISTS (SELECT FROM pending p WHERE p.recipient = r.key AND p.seq > 0 AND p.expires_at + 0 > $3)
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS q(app, name, n) `+named, apps, names, s.nowMS())
	if err != nil {
		return err
	}
	var n, last int64
	var waits bool
	_, err = pgx.ForEachRow(rows, []any{&n, &last, &waits}, func() error {
		heads[n-1] = mailbox.Head{LastSeq: uint64(last), Waits: waits} // counts from 0
		return nil
	})
	return err
}

// Pending implements mailbox.Store.
func (s *Store) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	results := make([]mailbox.PendingResult, len(qs))
	for from := 0; from < len(qs); from += pendingChunk {
		to := min(len(qs), from+pendingChunk)
		err := s.tables.with(ctx, func(set *tableSet) error {
			clear(results[from:to])
			return s.readPending(ctx, set, qs[from:to], results[from:to])
		})
		if err != nil {
			return nil, s.storeError("read pending notifications", err)
		}
	}
	return results, nil
}

// choosePending is a single statement, so that the copies and the newest seq come from one snapshot.
const choosePending = `SELECT q.n, r.key, r.last_seq, coalesce(p.pos, 0), coalesce(p.seq, 0), coalesce(p.attempts, 0), coalesce(p.bytes, 0)
	FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) WITH ORDINALITY AS q(app, name, device, most, n)
	` + named + `
	LEFT JOIN LATERAL (
		SELECT p.pos, p.seq, p.attempts, p.bytes, p.flags FROM pending p WHERE p.recipient = r.key AND p.seq > 0 AND p.expires_at + 0 > $5
			AND (q.device = '' OR p.flags & $6::smallint <> $7::smallint OR NOT EXISTS (
				SELECT FROM device_ack d WHERE d.recipient = p.recipient AND d.pos = p.pos AND d.device = q.device))
		ORDER BY p.flags & $8::smallint, p.seq LIMIT q.most
	) AS p ON true
	ORDER BY q.n, p.flags & $8::smallint, p.seq`

func (s *Store) readPending(ctx context.Context, set *tableSet, qs []mailbox.PendingQuery, results []mailbox.PendingResult) error {
	apps, names, devices, most := make([]string, len(qs)), make([]string, len(qs)), make([]string, len(qs)), make([]int32, len(qs))
	for i := range qs {
		q := &qs[i]
		apps[i], names[i], devices[i] = q.App, q.Recipient, q.Device
		most[i] = int32(limitOf(q.Limit) + 1 + len(q.Have)) // thousands
	}
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, choosePending, apps, names, devices, most, s.nowMS(), ackBits, ackAllFlag, priorityBits)
	if err != nil {
		return err
	}
	var refs []itemRef
	var of []int
	var n, last int64
	var ref itemRef
	var size int32
	bytes := make([]int, len(qs))
	taken := make([]int, len(qs))
	_, err = pgx.ForEachRow(rows, []any{&n, &ref.key, &last, &ref.pos, &ref.seq, &ref.attempts, &size}, func() error {
		i := int(n - 1)
		q, res := &qs[i], &results[i]
		res.LastSeq = uint64(last) // counts from 0
		if ref.pos == 0 {
			return nil
		}
		if _, have := slices.BinarySearch(q.Have, ref.pos); have {
			return nil
		}
		if taken[i] >= limitOf(q.Limit) || q.Bytes > 0 && bytes[i] >= q.Bytes {
			res.More = true
			return nil
		}
		taken[i]++
		bytes[i] += int(size)
		ref.app, ref.recipient = q.App, q.Recipient
		refs, of = append(refs, ref), append(of, i)
		return nil
	})
	if err != nil {
		return err
	}
	items, err := s.readItems(ctx, conn.Conn(), set, refs)
	for k, it := range items {
		if it != nil {
			results[of[k]].Items = append(results[of[k]].Items, *it)
		}
	}
	return err
}

func limitOf(n int) int {
	if n <= 0 {
		return pendingLimit
	}
	return n
}

// itemRef is an open copy whose notification is to be read.
type itemRef struct {
	app, recipient string
	key, pos, seq  int64
	attempts       int32
}

// sharedContent identifies a content that several copies share.
type sharedContent struct{ hour, key int64 }

// readItems reads notifications; nil for a copy that is gone. Copies of one publish share a notification.
func (s *Store) readItems(ctx context.Context, conn *pgx.Conn, set *tableSet, refs []itemRef) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	if len(refs) == 0 {
		return items, nil
	}
	keys, positions := make([]int64, len(refs)), make([]int64, len(refs))
	for i := range refs {
		keys[i], positions[i] = refs[i].key, refs[i].pos
	}
	sql := set.text("items", func() string {
		return `SELECT q.n, x.* FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS q(recipient, pos, n) CROSS JOIN LATERAL (` +
			all(set.hours, `SELECT %[1]d::bigint AS src, n.id, n.flags, n.created_at, coalesce(n.send_at, 0), n.expires_at, coalesce(n.collapse_key, ''), coalesce(n.content, 0), n.body
				FROM note_%[1]d n WHERE n.recipient = q.recipient AND n.pos = q.pos`) + ") AS x"
	})
	rows, err := conn.Query(ctx, sql, keys, positions)
	if err != nil {
		return nil, err
	}
	shares := make(map[sharedContent]*notification.Notification)
	var n int64
	var r row
	var share sharedContent
	var collapse string
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&n, &share.hour, &r.id, &r.flags, &r.created, &r.sendAt, &r.expires, &collapse, &share.key, &body}, func() error {
		ref := &refs[n-1]
		attempts := max(uint32(ref.attempts), s.notes.PeekMark(ref.pos).Attempts) // counts from 0
		items[n-1] = &mailbox.Item{Pos: ref.pos, Recipient: ref.recipient, Seq: uint64(ref.seq), Attempts: attempts, Escalates: r.flags.escalates()}
		if share.key != 0 {
			if known := shares[share]; known != nil {
				items[n-1].N = known
				return nil
			}
		}
		note := r.notification(ref.app, collapse)
		items[n-1].N = note
		if share.key != 0 {
			shares[share] = note
			return nil
		}
		var err error
		if note.Content, err = content.Decode(body); err != nil {
			return fmt.Errorf("notification %s to %s: %w", r.id, ref.recipient, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return items, readShares(ctx, conn, shares)
}

func (r *row) notification(app, collapse string) *notification.Notification {
	n := &notification.Notification{
		App: app, ID: r.id, Priority: r.flags.priority(), Ack: r.flags.ack(), CollapseKey: collapse, CreatedAt: millis.Time(r.created),
		SendAt: millis.Time(r.sendAt), ExpiresAt: millis.Time(r.expires),
	}
	if r.flags.asks() {
		n.ReplyBy = n.ExpiresAt
	}
	return n
}

// readShares reads the contents that copies share, each once.
func readShares(ctx context.Context, conn *pgx.Conn, shares map[sharedContent]*notification.Notification) error {
	if len(shares) == 0 {
		return nil
	}
	keys := make(map[int64][]int64)
	for s := range shares {
		keys[s.hour] = append(keys[s.hour], s.key)
	}
	missing := len(shares)
	for hour, list := range keys {
		rows, err := conn.Query(ctx, fmt.Sprintf("SELECT key, body FROM content_%d WHERE key = ANY($1)", hour), list)
		if err != nil {
			return err
		}
		var key int64
		var body []byte
		_, err = pgx.ForEachRow(rows, []any{&key, &body}, func() (err error) {
			n := shares[sharedContent{hour, key}]
			missing--
			if n.Content, err = content.Decode(body); err != nil {
				return fmt.Errorf("notification %s: %w", n.ID, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d contents that copies share are missing", missing)
	}
	return nil
}

// Items implements mailbox.Store.
func (s *Store) Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	for from := 0; from < len(refs); from += pendingChunk {
		to := min(len(refs), from+pendingChunk)
		err := s.tables.with(ctx, func(set *tableSet) error {
			clear(items[from:to])
			return s.readRefs(ctx, set, refs[from:to], items[from:to])
		})
		if err != nil {
			return nil, s.storeError("read notifications", err)
		}
	}
	return items, nil
}

func (s *Store) readRefs(ctx context.Context, set *tableSet, refs []mailbox.Ref, items []*mailbox.Item) error {
	apps, names, positions := make([]string, len(refs)), make([]string, len(refs)), make([]int64, len(refs))
	for i, ref := range refs {
		apps[i], names[i], positions[i] = ref.App, ref.Recipient, ref.Pos
	}
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, `SELECT q.n, r.key, p.pos, p.seq, coalesce(p.attempts, 0) FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS q(app, name, pos, n)
		`+named+`
		JOIN pending p ON p.recipient = ANY(ARRAY[r.key]) AND p.pos = q.pos AND p.seq > 0 AND p.expires_at + 0 > $4`, apps, names, positions, s.nowMS())
	if err != nil {
		return err
	}
	var there []itemRef
	var of []int64
	var n int64
	var ref itemRef
	_, err = pgx.ForEachRow(rows, []any{&n, &ref.key, &ref.pos, &ref.seq, &ref.attempts}, func() error {
		ref.app, ref.recipient = refs[n-1].App, refs[n-1].Recipient
		there, of = append(there, ref), append(of, n-1)
		return nil
	})
	if err != nil {
		return err
	}
	found, err := s.readItems(ctx, conn.Conn(), set, there)
	for k, it := range found {
		items[of[k]] = it
	}
	return err
}
