package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// A node that was stopped between two round trips leaves recipients' rows locked until the server ends its transaction. A lane that meets such
// rows goes on with everything else: it parks the operations on these recipients and tries them again with each commit. A lane that meets a
// table which upkeep has locked parks all operations.
const (
	// rowWait limits how long a commit waits for rows: live nodes hold their locks for one round trip and one flush of the
	// log.
	rowWait = 250 * time.Millisecond
	// stuckWait replaces rowWait while some rows are stuck: each further locked row stops the lane for that long.
	stuckWait = 20 * time.Millisecond
	// upkeepWait limits how long upkeep waits for rows. Upkeep makes up to five tries, and the lane waits for them.
	upkeepWait = 100 * time.Millisecond
	// parkPause is the pause between two tries of parked operations while the lane has no other operations.
	parkPause = 20 * time.Millisecond
	// parkFor is how long publishers wait for a stuck recipient or a locked table. It exceeds the second after which the server ends an
	// idle transaction.
	parkFor = 2 * time.Second
)

// errStuck is the answer to operations that were parked for too long.
var errStuck = errors.New("the database has kept these mailboxes locked, for another node or for upkeep: try again")

// waitAtMost returns the statement that limits lock waits for the rest of the transaction.
func waitAtMost(d time.Duration) string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", d.Milliseconds())
}

// These statements are constant texts, so that each is prepared only once.
var (
	waitForRows  = waitAtMost(rowWait)
	waitForStuck = waitAtMost(stuckWait)
	waitInUpkeep = waitAtMost(upkeepWait)
)

// parking holds a lane's operations on stuck recipients. Only the lane's goroutine uses it.
type parking struct {
	stuck map[mailbox.Address]bool // recipients whose rows were locked at the last try
	ops   []op                     // in the order of arrival
	since map[op]time.Time         // arrival times of ops; those that a commit has ended stay until giveUp
	next  time.Time                // when to try again
}

// park stores the operations that a commit passed over, and returns the ones that the commit has done.
func (p *parking) park(ops, passed []op) (done []op) {
	if len(passed) == 0 {
		if len(p.ops) == 0 {
			p.stuck, p.since = nil, nil
		}
		return ops
	}
	if p.since == nil {
		p.since = make(map[op]time.Time)
	}
	now := time.Now()
	left := make(map[op]bool, len(passed))
	for _, o := range passed {
		left[o] = true
		if p.since[o].IsZero() {
			p.since[o] = now
		}
	}
	p.ops, p.next = append(p.ops, passed...), now.Add(parkPause)
	for _, o := range ops {
		if !left[o] {
			delete(p.since, o)
			done = append(done, o)
		}
	}
	return done
}

// take returns the parked operations, followed by ops.
func (p *parking) take(ops []op) []op {
	if len(p.ops) == 0 || len(ops) == 0 && time.Now().Before(p.next) {
		return ops
	}
	taken := append(p.ops, ops...)
	p.ops = nil
	return taken
}

// giveUp fails parked operations that have waited too long. It runs between commits, so every operation that is not parked has ended.
func (l *lane) giveUp() {
	if len(l.parking.since) == 0 {
		return
	}
	kept, since := l.parking.ops[:0], make(map[op]time.Time, len(l.parking.ops))
	for _, o := range l.parking.ops {
		if at := l.parking.since[o]; time.Since(at) < l.s.cfg.parkFor {
			kept, since[o] = append(kept, o), at
			continue
		}
		if q, ok := unwaited(o); ok {
			l.again(q)
			continue
		}
		o.Finish(errStuck)
	}
	l.parking.ops, l.parking.since = kept, since
}

// suspect marks all recipients of these operations as possibly locked; the next try checks each of them.
func (p *parking) suspect(ops []op) {
	if p.stuck == nil {
		p.stuck = make(map[mailbox.Address]bool)
	}
	for _, o := range ops {
		o.each(func(a mailbox.Address) { p.stuck[a] = true })
	}
}

func (o *appendOp) each(do func(mailbox.Address)) {
	for i := range o.parts {
		p := &o.parts[i]
		for _, n := range p.to {
			do(mailbox.Address{App: p.a.N.App, Recipient: p.a.To[n]})
		}
	}
}

func (o *settleOp) each(do func(mailbox.Address)) {
	for _, q := range o.batch {
		do(mailbox.Address{App: q.App, Recipient: q.Recipient})
	}
}

const (
	lockFree  = "SELECT key FROM recipient WHERE key = ANY($1) ORDER BY key FOR UPDATE SKIP LOCKED"
	knownKeys = "SELECT key FROM recipient WHERE key = ANY($1)"
)

// passOver begins the transaction with a look at the recipients that were stuck, and returns the operations that can be done now. An operation is
// passed over if one of its recipients is stuck, and so is a later publish to any recipient of a publish that was passed over, so that
// each recipient's publishes stay in order.
func (t *transaction) passOver(ctx context.Context, ops []op) (rest []op, err error) {
	stuck := t.l.parking.stuck
	var asked []*box
	for _, o := range ops {
		o.each(func(a mailbox.Address) {
			if stuck[a] && t.boxes[a] == nil {
				asked = append(asked, t.box(a.App, a.Recipient))
			}
		})
	}
	if len(asked) > 0 {
		if err := t.findKeys(ctx); err != nil {
			return nil, fmt.Errorf("find recipients: %w", err)
		}
		if err := t.lookAtStuck(ctx, asked); err != nil {
			return nil, err
		}
	}
	held := make(map[mailbox.Address]bool)
	hold := func(o op) {
		if _, publishes := o.(*appendOp); publishes {
			o.each(func(a mailbox.Address) { held[a] = true })
		}
	}
	for _, o := range t.l.parking.ops { // a failed commit is retried in parts, and an earlier part may have parked operations
		hold(o)
	}
	for _, b := range asked {
		if b.stuck {
			held[b.Address] = true
		} else {
			delete(stuck, b.Address)
		}
	}
	clear(t.boxes)
	for _, o := range ops {
		pass := false
		o.each(func(a mailbox.Address) { pass = pass || held[a] })
		if !pass {
			rest = append(rest, o)
			continue
		}
		t.passed = append(t.passed, o)
		hold(o)
	}
	return rest, nil
}

// lookAtStuck locks those of the recipients that are free, and marks the others as stuck.
func (t *transaction) lookAtStuck(ctx context.Context, boxes []*box) error {
	byKey := make(map[int64]*box)
	var keys []int64
	for _, b := range boxes {
		if b.key != 0 {
			byKey[b.key], keys = b, append(keys, b.key)
		}
	}
	each := func(stuck bool) func(rows pgx.Rows) error {
		return func(rows pgx.Rows) error {
			var key int64
			_, err := pgx.ForEachRow(rows, []any{&key}, func() error {
				byKey[key].stuck = stuck
				return nil
			})
			return err
		}
	}
	a := &asking{}
	a.ask("BEGIN", nil)
	a.ask(waitForStuck, nil)
	a.ask(knownKeys, each(true), keys)
	a.ask(lockFree, each(false), keys)
	t.begun = true
	return a.send(ctx, t.conn)
}

// lockNamed locks recipients in the order that all transactions use, and returns their keys; 0 for unknown ones. If patient, it waits for
// rows that other transactions have locked. Otherwise it skips these rows and returns 0 for them, too.
func lockNamed(ctx context.Context, tx pgx.Tx, apps, names []string, patient bool) ([]int64, error) {
	boxes := make([]*box, len(apps))
	for i := range boxes {
		boxes[i] = &box{Address: mailbox.Address{App: apps[i], Recipient: names[i]}}
	}
	if err := readKeys(ctx, tx.Conn(), boxes); err != nil {
		return nil, err
	}
	keys := make([]int64, len(boxes))
	for i, b := range boxes {
		keys[i] = b.key
	}
	if patient {
		_, err := tx.Exec(ctx, lockRecipients, keys)
		return keys, err
	}
	rows, err := tx.Query(ctx, lockFree, keys)
	if err != nil {
		return nil, err
	}
	free := make(map[int64]bool)
	var key int64
	_, err = pgx.ForEachRow(rows, []any{&key}, func() error {
		free[key] = true
		return nil
	})
	for i, key := range keys {
		if !free[key] {
			keys[i] = 0
		}
	}
	return keys, err
}
