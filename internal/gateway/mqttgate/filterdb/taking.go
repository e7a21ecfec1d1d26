package filterdb

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/store/sqltx"
)

// work carries out what waits. Failures are tried again until Sessions is closed. Clients that connect do not wait for that.
func (s *Sessions) work() {
	wait := time.Duration(0)
	for {
		s.mu.Lock()
		batch := s.take()
		if len(batch) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		last := s.ended()
		err := s.carryOut(batch)
		if err == nil {
			wait = 0
			continue
		}
		left := s.putBack(batch, err)
		s.cfg.Log.Warn("changes of MQTT sessions could not be stored", "to_be_tried_again", left, "error", err)
		if left == 0 {
			continue
		}
		if last {
			s.cfg.Log.Error("changes of MQTT sessions could not be stored before the stop", "changes", left)
			s.mu.Lock()
			s.waiting = nil
			s.mu.Unlock()
			continue
		}
		wait = min(max(2*wait, retryFirst), retryMost)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.closing:
			t.Stop()
		}
	}
}

// take removes a batch: of each device nothing that comes after a client has taken its session. s.mu is held.
func (s *Sessions) take() (batch []op) {
	taken := make(map[Device]bool)
	later := s.waiting[:0:0]
	for _, q := range s.waiting {
		switch {
		case taken[q.of]:
			later = append(later, q)
		default:
			taken[q.of] = q.what == takes || q.what == adopts
			batch = append(batch, q)
		}
	}
	s.waiting = later
	return batch
}

// putBack has changes tried again after a failure, and returns how many. Changes with a waiting client are refused instead, also those that came
// meanwhile: the client sends them again.
func (s *Sessions) putBack(batch []op, err error) (left int) {
	var tell []func()
	s.mu.Lock()
	s.failing = err
	all := append(batch, s.waiting...)
	s.waiting = nil
	for _, q := range all {
		if found := q.found; found != nil {
			wrong := err
			if q.what == discards {
				wrong = nil
			}
			tell = append(tell, func() { found(Found{}, wrong) })
		}
		if done := q.done; done != nil {
			tell = append(tell, func() { done(err) })
		}
		if q.what != takes && (q.what != stores || q.done == nil) {
			q.done, q.found = nil, nil
			s.waiting = append(s.waiting, q)
		}
	}
	s.waiting = effective(s.waiting)
	if lost := len(s.waiting) - maxWaiting; lost > 0 {
		s.waiting = slices.Delete(s.waiting, 0, lost)
		s.cfg.Log.Error("changes of MQTT sessions are lost: too many wait for the store", "changes", lost)
	}
	left = len(s.waiting)
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
	return left
}

// effective leaves out the changes that later ones make void: a session that is adopted or discarded does not depend on what was before, and of each
// connection the last list of subscriptions is enough.
func effective(all []op) (list []op) {
	settled, stored := make(map[Device]bool), make(map[int64]bool)
	for _, q := range slices.Backward(all) {
		switch {
		case settled[q.of]:
		case q.what == stores && stored[q.owner]:
		default:
			settled[q.of] = q.what == adopts || q.what == discards
			stored[q.owner] = q.what == stores || stored[q.owner]
			list = append(list, q)
		}
	}
	slices.Reverse(list)
	return list
}

// carryOut stores a batch and reports the outcome.
func (s *Sessions) carryOut(batch []op) error {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	found := make(map[int64]Found)
	err := s.cfg.DB.Change(ctx, "store sessions of MQTT clients", func(ctx context.Context, tx sqltx.Tx) error {
		clear(found)
		return s.store(ctx, tx, batch, found)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.failing = nil
	for i := range batch {
		s.note(&batch[i], found)
	}
	s.mu.Unlock()
	for i := range batch {
		switch q := &batch[i]; {
		case q.found != nil:
			q.found(found[q.owner], nil)
		case q.done != nil:
			q.done(nil)
		}
	}
	return nil
}

// note keeps the counts after an op. s.mu is held.
func (s *Sessions) note(q *op, found map[int64]Found) {
	if q.what == stores || q.what == leaves {
		return
	}
	f := found[q.owner]
	_, had := s.known[s.hash(q.of)]
	switch {
	case f.Owner == 0 && had: // ended, or not wanted
		s.counts[q.of.App]--
		delete(s.known, s.hash(q.of))
	case f.Owner == 0:
	case s.known == nil && f.Former == 0 && !f.Over, s.known != nil && !had:
		s.counts[q.of.App]++
		if s.known != nil {
			s.known[s.hash(q.of)] = struct{}{}
		}
	}
}

// values is a VALUES list of texts and numbers.
type values struct {
	text strings.Builder
	args []any
}

func (v *values) row(args ...any) {
	if v.text.Len() > 0 {
		v.text.WriteString(", ")
	}
	for i, a := range args {
		if i == 0 {
			v.text.WriteString("(")
		} else {
			v.text.WriteString(", ")
		}
		v.args = append(v.args, a)
		n := "$" + strconv.Itoa(len(v.args))
		if _, number := a.(int64); number { // PostgreSQL takes a placeholder for a text
			n = "CAST(" + n + " AS bigint)"
		}
		v.text.WriteString(n)
	}
	v.text.WriteString(")")
}

// those calls f with slices of the ops of some kinds.
func those(batch []op, is func(*op) bool, f func([]op) error) error {
	var list []op
	for i := range batch {
		if is(&batch[i]) {
			list = append(list, batch[i])
		}
	}
	for part := range slices.Chunk(list, sliceOfRows) {
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sessions) store(ctx context.Context, tx sqltx.Tx, batch []op, found map[int64]Found) error {
	const mine = " FROM (VALUES %) AS q WHERE session.app = q.column1 AND session.recipient = q.column2 AND session.device = q.column3 AND session.owner = q.column4"
	run := func(statement string, part []op, row func(*op) []any) error {
		var v values
		for i := range part {
			v.row(row(&part[i])...)
		}
		_, err := tx.Exec(ctx, strings.Replace(statement, "%", v.text.String(), 1), v.args...)
		return err
	}
	now := s.cfg.Now()
	for i := range batch { // one by one, since a list may be long
		if q := &batch[i]; q.what == stores {
			if _, err := tx.Exec(ctx, "UPDATE session SET subscriptions = $5 WHERE app = $1 AND recipient = $2 AND device = $3 AND owner = $4", q.of.App, q.of.Recipient, q.of.Name, q.owner, q.subs); err != nil {
				return err
			}
		}
	}
	for _, of := range []struct {
		is        func(*op) bool
		statement string
		row       func(*op) []any
	}{
		{
			func(q *op) bool { return q.what == leaves }, "UPDATE session SET connected = 0, expiry = q.column5, until = q.column6" + mine,
			func(q *op) []any {
				return []any{q.of.App, q.of.Recipient, q.of.Name, q.owner, q.expiry.Milliseconds(), q.until.UnixMilli()}
			},
		},
		{
			func(q *op) bool { return q.what == ends }, "DELETE FROM session WHERE (app, recipient, device, owner) IN (VALUES %)",
			func(q *op) []any { return []any{q.of.App, q.of.Recipient, q.of.Name, q.owner} },
		},
		{
			func(q *op) bool { return q.what == discards }, "DELETE FROM session WHERE (app, recipient, device) IN (VALUES %)",
			func(q *op) []any { return []any{q.of.App, q.of.Recipient, q.of.Name} },
		},
	} {
		if err := those(batch, of.is, func(part []op) error { return run(of.statement, part, of.row) }); err != nil {
			return err
		}
	}
	return those(batch, func(q *op) bool { return q.what == takes || q.what == adopts }, func(part []op) error {
		return s.connect(ctx, tx, part, now, found)
	})
}

// The fate of the row that a client finds. The row that it leaves has in "former" the owner before, a positive number; stopped or over, if the
// session of before has ended; or, in a new row, one of these.
const (
	stopped = 0  // discarded
	over    = -1 // its time was over
	goOn    = -2
	discard = -3
	replace = -4 // its subscriptions
)

// connect gives clients their sessions.
func (s *Sessions) connect(ctx context.Context, tx sqltx.Tx, part []op, now time.Time, found map[int64]Found) error {
	var v values
	of := make(map[int64]*op, len(part))
	for i := range part {
		q := &part[i]
		of[q.owner] = q
		subs, how := "[]", int64(goOn)
		switch {
		case q.what == adopts:
			subs, how = q.subs, replace
		case q.clean:
			how = discard
		}
		v.row(q.of.App, q.of.Recipient, q.of.Name, subs, q.expiry.Milliseconds(), now.Add(q.expiry+Slack).UnixMilli(), s.cfg.Node, int64(1), q.owner, how)
	}
	v.args = append(v.args, now.UnixMilli())
	isOver := "session.until <= CAST($" + strconv.Itoa(len(v.args)) + " AS bigint)"
	statement := "INSERT INTO session (app, recipient, device, subscriptions, expiry, until, node, connected, owner, former) VALUES " + v.text.String() + `
		ON CONFLICT (app, recipient, device) DO UPDATE SET
			subscriptions = CASE WHEN excluded.former <> -2 OR ` + isOver + ` THEN excluded.subscriptions ELSE session.subscriptions END,
			former = CASE WHEN excluded.former = -3 THEN 0 WHEN ` + isOver + ` THEN -1 ELSE session.owner END,
			expiry = excluded.expiry, until = excluded.until, node = excluded.node, connected = excluded.connected, owner = excluded.owner
		RETURNING owner, former, subscriptions`
	var added []*op
	err := tx.Each(ctx, statement, v.args, func(r sqltx.Row) error {
		var owner, former int64
		var text string
		if err := r.Scan(&owner, &former, &text); err != nil {
			return err
		}
		q, f := of[owner], Found{Owner: owner, Former: max(former, stopped), Over: former == over}
		var wrong error
		if f.Subscriptions, wrong = decode(text); wrong != nil {
			s.cfg.Log.Error("an MQTT client has lost its subscriptions", "app", q.of.App, "recipient", q.of.Recipient, "device", q.of.Name, "error", wrong)
			f.Former, f.Subscriptions = stopped, nil
		}
		found[owner] = f
		if former < over || f.Over && q.expiry == 0 {
			added = append(added, q)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.limit(ctx, tx, added, found)
}

// limit takes new sessions back that are too many, or that do not outlast their connections.
func (s *Sessions) limit(ctx context.Context, tx sqltx.Tx, added []*op, found map[int64]Found) error {
	s.mu.Lock()
	counts := maps.Clone(s.counts)
	s.mu.Unlock()
	room := make(map[Device]int) // of recipients
	var v values
	for _, q := range added {
		who := Device{App: q.of.App, Recipient: q.of.Recipient}
		if _, read := room[who]; !read && q.expiry > 0 {
			err := tx.Each(ctx, "SELECT count(*) FROM session WHERE app = $1 AND recipient = $2", []any{who.App, who.Recipient}, func(r sqltx.Row) error {
				var n int64
				err := r.Scan(&n)
				room[who] = maxOfRecipient - int(n)
				return err
			})
			if err != nil {
				return err
			}
		}
		counts[q.of.App]++
		if q.expiry > 0 && room[who] >= 0 && counts[q.of.App] <= maxSessions {
			continue
		}
		room[who]++
		counts[q.of.App]--
		found[q.owner] = Found{Over: found[q.owner].Over}
		v.row(q.of.App, q.of.Recipient, q.of.Name)
	}
	if len(v.args) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, "DELETE FROM session WHERE (app, recipient, device) IN (VALUES "+v.text.String()+")", v.args...)
	return err
}
