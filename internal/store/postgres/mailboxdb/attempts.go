package mailboxdb

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/attempts"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/notes"
)

// triedSpan is the greatest distance, in milliseconds, between the settle times of copies in one row of tried: the range
// searched for one copy.
const triedSpan = 10_000

// tried holds the attempts that a commit writes.
type tried struct {
	plain []attempts.Plain
	apart map[copyKey]*triedCopy
}

type copyKey struct{ recipient, pos int64 }

// triedCopy holds attempts that are added to a copy's earlier ones.
type triedCopy struct {
	at     int64
	data   []byte
	always bool // also to more than attempts.Most
}

// end adds the attempts of a copy that ends.
func (w *tried) end(s *Store, recipient, pos, at int64, q *mailbox.Settle, as notification.Status, m *notes.Mark) {
	if s.cfg.NoAttempts {
		return
	}
	via, list := m.End(q, as, true)
	if via != (attempts.Via{}) {
		w.plain = append(w.plain, attempts.Plain{Pos: pos, At: at, Via: via})
		return
	}
	w.add(recipient, pos, at, list, true)
}

func (w *tried) add(recipient, pos, at int64, list []attempts.Tried, always bool) {
	if len(list) == 0 {
		return
	}
	if w.apart == nil {
		w.apart = make(map[copyKey]*triedCopy)
	}
	c := w.apart[copyKey{recipient, pos}]
	if c == nil {
		c = &triedCopy{}
		w.apart[copyKey{recipient, pos}] = c
	}
	c.at, c.always = max(c.at, at), c.always || always
	for _, t := range list {
		c.data = t.Append(c.data)
	}
}

const (
	insertTried  = "INSERT INTO tried (last, first, node, data) VALUES ($1, $2, $3, $4)"
	saveAttempts = `INSERT INTO attempt (recipient, pos, node, at, data)
		SELECT q.recipient, q.pos, $6, q.at, q.data FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS q(recipient, pos, at, data)
		WHERE EXISTS (SELECT FROM recipient r WHERE r.key = q.recipient) -- or it was erased meanwhile
		ON CONFLICT (recipient, pos, node) DO UPDATE SET at = greatest(attempt.at, excluded.at), data = attempt.data || excluded.data
		WHERE length(attempt.data) < $7 OR EXISTS (SELECT FROM unnest($2::bigint[], $5::boolean[]) AS a(pos, always) WHERE a.pos = attempt.pos AND a.always)`
)

// ask writes it.
func (w *tried) ask(s *Store, queue func(sql string, args ...any)) {
	slices.SortFunc(w.plain, func(a, b attempts.Plain) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pos, b.Pos)) })
	for list := w.plain; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].At-list[0].At <= triedSpan {
			n++
		}
		queue(insertTried, list[n-1].At, list[0].At, s.cfg.Node, attempts.AppendPlain(nil, list[:n]))
		list = list[n:]
	}
	if len(w.apart) == 0 {
		return
	}
	of := make([]copyKey, 0, len(w.apart))
	for k := range w.apart {
		of = append(of, k)
	}
	slices.SortFunc(of, func(a, b copyKey) int {
		return cmp.Or(cmp.Compare(a.recipient, b.recipient), cmp.Compare(a.pos, b.pos))
	}) // as everybody does
	keys, positions, at := make([]int64, len(of)), make([]int64, len(of)), make([]int64, len(of))
	data, always := make([][]byte, len(of)), make([]bool, len(of))
	for i, k := range of {
		c := w.apart[k]
		keys[i], positions[i], at[i], data[i], always[i] = k.recipient, k.pos, c.at, c.data, c.always
	}
	queue(saveAttempts, keys, positions, at, data, always, s.cfg.Node, attempts.Most)
}

func (t *transaction) askTried(a *asking) {
	t.out.tried.ask(t.l.s, func(sql string, args ...any) { a.ask(sql, nil, args...) })
}

// tellTried adds to a record the attempts for its copy, including those on this node that are not yet written.
func (s *Store) tellTried(ctx context.Context, conn *pgx.Conn, app string, key int64, to *mailbox.Record) error {
	mark := s.notes.PeekMark(to.Pos) // read before the stored attempts: in the other order an attempt written in between would be missing
	var list []mailbox.Attempt
	var via attempts.Via
	var node, name string
	var known []string
	var data []byte
	a := &asking{}
	a.ask("SELECT node, data FROM attempt WHERE recipient = $1 AND pos = $2", func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&node, &data}, func() error {
			more, err := attempts.Decode(data)
			list = append(list, onNode(more, node)...)
			return err
		})
		return err
	}, key, to.Pos)
	settled, by := millis.Of(to.SettledAt), ""
	a.ask("SELECT node, data FROM tried WHERE last >= $1 AND last <= $2 AND first <= $1", func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&node, &data}, func() error {
			found, err := attempts.FindPlain(data, to.Pos, settled)
			if found != (attempts.Via{}) {
				via, by = found, node
			}
			return err
		})
		return err
	}, settled, settled+triedSpan)
	a.ask("SELECT name FROM device WHERE recipient = $1", func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name}, func() error {
			known = append(known, name)
			return nil
		})
		return err
	}, key)
	if err := a.send(ctx, conn); err != nil {
		return err
	}
	known = append(known, s.notes.DevicesOf(app, to.To, 0)...)
	mark.Tell(to)
	attempts.Tell(to, append(list, onNode(to.Tried, s.cfg.Node)...), via, known, by)
	return nil
}

// onNode sets the node of attempts.
func onNode(list []mailbox.Attempt, node string) []mailbox.Attempt {
	for i := range list {
		list[i].Node = node
	}
	return list
}
