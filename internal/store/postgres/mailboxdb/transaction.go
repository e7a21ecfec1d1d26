package mailboxdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// transaction is one commit of a lane. It takes two round trips: the first locks the recipients and reads their state, the code here
// decides on the changes, and the second writes them and commits. Commits without decisions take one.
type transaction struct {
	l    *lane
	conn *pgx.Conn
	set  *tableSet
	hour int64 // hour whose tables get new rows

	boxes  map[mailbox.Address]*box
	byKey  map[int64]*box
	opens  map[int64]*open // by position
	nacks  map[int64]*nack
	acks   map[int64]map[string]int64 // when devices acknowledged, by position
	closed map[int64]*row             // settled copies that acknowledgements named by position

	quick  []*mailbox.Settle
	missed []*mailbox.Settle // of these
	ended  []ended
	gone   map[int64]bool // positions of copies that are settled by this commit

	once []atOnce // copies that are stored in one round trip
	left []op     // publishes that could not be

	next    []int64 // positions that were taken
	inboxes inboxes
	out     writes
	passed  []op // whose recipients are stuck
	begun   bool
	sent    bool // with its COMMIT
	outcome
}

// box is a recipient whose row is locked.
type box struct {
	mailbox.Address
	key      int64
	lastSeq  int64
	copies   int64
	adds     int // copies that this commit may store
	pending  int // number of open copies, if counted
	counted  bool
	lock     bool // the row must be locked; locked: it has been
	locked   bool
	stuck    bool // another transaction has held the row's lock for too long
	changed  bool
	ids      map[string]*row // the newest copy of each queried id
	collapse []*open         // open copies with a collapse key that a publish of this commit replaces
	devices  []device
	last     *mailbox.Append // that stored a copy here
}

type device struct {
	name string
	seen int64
}

// open is a copy that was not settled before this commit, with the changes that this commit makes.
type open struct {
	box       *box
	pos       int64
	id        string // where it was asked for
	seq       int64
	sendAt    int64
	expires   int64
	delivered int64 // 0: not known
	attempts  int32
	flags     flags
	collapse  string
	settled   bool // this commit settles it, with the status as at the time at
	as        notification.Status
	at        int64
}

func (o *open) scheduled() bool { return o.seq == 0 }

func newTransaction(l *lane, conn *pgx.Conn, set *tableSet) *transaction {
	t := &transaction{
		inboxes: inboxes{conn: conn},
		l:       l, conn: conn, set: set, hour: l.s.tables.hourAt(l.s.nowMS()),
		boxes: make(map[mailbox.Address]*box), byKey: make(map[int64]*box), opens: make(map[int64]*open),
	}
	if !slices.Contains(set.hours, t.hour) { // a new hour has begun since the tables were read
		t.hour = set.hours[len(set.hours)-1]
	}
	return t
}

func (t *transaction) run(ctx context.Context, ops []op) (err error) {
	t.inboxes.ctx = ctx
	if len(t.l.parking.stuck)+len(t.l.parking.ops) > 0 {
		if ops, err = t.passOver(ctx, ops); err != nil {
			return err
		}
		if len(ops) == 0 {
			return rollback(ctx, t.conn)
		}
	}
	var appends []*appendOp
	var settles []*mailbox.Settle
	for _, o := range ops {
		switch o := o.(type) {
		case *appendOp:
			appends = append(appends, o)
			for i := range o.parts {
				p := &o.parts[i]
				for _, n := range p.to {
					b := t.box(p.a.N.App, p.a.To[n])
					b.lock = true
					if p.a.Refused == nil {
						b.adds++
					}
				}
			}
		case *settleOp:
			for _, q := range o.batch {
				b := t.box(q.App, q.Recipient)
				if !o.slow && quick(q) && !t.l.parking.stuck[b.Address] {
					t.quick = append(t.quick, q)
					continue
				}
				b.lock = true
				settles = append(settles, q)
			}
		}
	}
	if err := t.findKeys(ctx); err != nil {
		return fmt.Errorf("find recipients: %w", err)
	}
	if t.oneTrip(appends, settles) {
		return t.storeAtOnce(ctx, appends)
	}
	if err := t.read(ctx, appends, settles); err != nil {
		return err
	}
	if t.sent {
		return nil
	}
	if err := t.readMore(ctx, settles); err != nil {
		return err
	}
	for _, q := range settles {
		q.Outcome = t.settle(q)
	}
	for _, o := range appends {
		for i := range o.parts {
			if err := t.append(&o.parts[i]); err != nil {
				return err
			}
		}
	}
	return t.write(ctx)
}

// rollback ends the transaction, if there is one. If that fails it closes the connection.
func rollback(ctx context.Context, conn *pgx.Conn) error {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := conn.Exec(ctx, "ROLLBACK")
	if err != nil {
		_ = conn.Close(ctx)
	}
	return err
}

func (t *transaction) box(app, recipient string) *box {
	a := mailbox.Address{App: app, Recipient: recipient}
	b := t.boxes[a]
	if b == nil {
		b = &box{Address: a}
		t.boxes[a] = b
	}
	return b
}

// maxKeys limits the recipients whose keys the lanes keep in memory, all lanes together.
const maxKeys = 1 << 17

// findKeys looks up the keys of all recipients, and creates the recipients that are about to get their first notification.
func (t *transaction) findKeys(ctx context.Context) error {
	var missing []*box
	for _, b := range t.boxes {
		if b.key = t.l.keys[b.Address]; b.key == 0 {
			missing = append(missing, b)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := readKeys(ctx, t.conn, missing); err != nil {
		return err
	}
	create := slices.DeleteFunc(slices.Clone(missing), func(b *box) bool { return b.key != 0 || b.adds == 0 })
	if len(create) > 0 {
		if t.begun { // recipients are made in a commit of their own, so this transaction ends; read starts again and takes the same locks anew
			if err := rollback(ctx, t.conn); err != nil {
				return err
			}
			t.begun = false
		}
		if err := makeRecipients(ctx, t.conn, create); err != nil {
			return err
		}
		if err := readKeys(ctx, t.conn, create); err != nil {
			return err
		}
	}
	for _, b := range missing {
		if b.key == 0 {
			continue
		}
		if len(t.l.keys) >= maxKeys/t.l.s.cfg.Lanes {
			clear(t.l.keys) // simpler than evicting the least recently used keys, and rarely needed
		}
		t.l.keys[b.Address] = b.key
	}
	return nil
}

func addresses(boxes []*box) (apps, names []string) {
	for _, b := range boxes {
		apps, names = append(apps, b.App), append(names, b.Recipient)
	}
	return apps, names
}

// named joins q(app, name) with its recipient r. OFFSET 0 makes PostgreSQL read q first, whatever it assumes about the tables' sizes.
const named = `CROSS JOIN LATERAL (SELECT r.key, r.last_seq FROM recipient r
	WHERE r.app = (SELECT a.key FROM app a WHERE a.name = q.app) AND r.name = q.name OFFSET 0) AS r`

func readKeys(ctx context.Context, conn *pgx.Conn, of []*box) error {
	apps, names := addresses(of)
	rows, err := conn.Query(ctx, "SELECT q.n, r.key FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS q(app, name, n) "+named, apps, names)
	if err != nil {
		return err
	}
	var n, key int64
	_, err = pgx.ForEachRow(rows, []any{&n, &key}, func() error {
		of[n-1].key = key
		return nil
	})
	return err
}

// makeRecipients makes recipients in a commit of its own, which need not be on disk: all rows that refer to them come later in
// the log. All transactions make them in the same order, so that none deadlock.
func makeRecipients(ctx context.Context, conn *pgx.Conn, boxes []*box) error {
	slices.SortFunc(boxes, func(a, b *box) int { return compareAddresses(a.Address, b.Address) })
	apps, names := addresses(boxes)
	parts := make([]int16, len(boxes))
	for i := range boxes {
		parts[i] = int16(shardOf(apps[i], names[i])) // below 16
	}
	a := &asking{} // sent in one round trip, since other makers of the same recipients wait until this commits
	a.ask("BEGIN", nil)
	a.ask("SET LOCAL synchronous_commit = off", nil)
	a.ask(waitForRows, nil)
	a.ask(`INSERT INTO app (name) SELECT DISTINCT name FROM unnest($1::text[]) AS q(name)
		WHERE NOT EXISTS (SELECT FROM app a WHERE a.name = q.name) ORDER BY name ON CONFLICT (name) DO NOTHING`, nil, apps)
	a.ask(`INSERT INTO recipient (app, name, shard)
		SELECT a.key, q.name, q.shard FROM unnest($1::text[], $2::text[], $3::smallint[]) WITH ORDINALITY AS q(app, name, shard, n)
		JOIN app a ON a.name = q.app ORDER BY q.n ON CONFLICT (app, name) DO NOTHING`, nil, apps, names, parts)
	a.ask("COMMIT", nil)
	if err := a.send(ctx, conn); err != nil {
		_ = rollback(ctx, conn)
		return fmt.Errorf("make recipients: %w", err)
	}
	return nil
}

func compareAddresses(a, b mailbox.Address) int {
	return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Recipient, b.Recipient))
}

// openOf returns the open value of a copy that is not settled.
func (t *transaction) openOf(b *box, r *row) *open {
	o := t.opens[r.pos]
	if o == nil {
		o = &open{box: b, pos: r.pos, seq: r.seq, sendAt: r.sendAt, expires: r.expires, delivered: r.delivered, attempts: r.attempts, flags: r.flags}
		t.opens[r.pos] = o
	}
	if r.id != "" {
		o.id = r.id
	}
	return o
}

// known returns the newest copy of an id, including this commit's changes.
func (t *transaction) known(b *box, id string) *row {
	r := b.ids[id]
	if r != nil && r.open {
		if o := t.opens[r.pos]; o.settled {
			r.open, r.status, r.settled = false, int16(o.as), o.at
		}
	}
	return r
}

// status returns the status of an open copy at a time.
func (o *open) status(now int64) notification.Status {
	switch {
	case o.expires <= now:
		return notification.Expired
	case o.scheduled():
		return notification.Scheduled
	case o.delivered > 0:
		return notification.Delivered
	}
	return notification.Stored
}
