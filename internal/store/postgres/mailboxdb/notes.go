package mailboxdb

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/mailbox"
)

const (
	// noteEvery is how long marks and sightings wait: long enough that a quick ack carries a mark along.
	noteEvery = time.Second
	// noteSlice is how many go into one commit.
	noteSlice = 250
	// maxNotes bounds what waits: beyond it new marks and sightings are dropped, which their contract allows.
	maxNotes = 1 << 20
)

// mark is a delivery that has not been written yet.
type mark struct {
	mailbox.Address
	pos         int64
	deliveredAt int64
	since       int64
	attempts    uint32
}

type sighting struct {
	at      int64
	devices map[string]int64
}

// notes are the marks and sightings that wait to be written.
type notes struct {
	s     *Store
	mu    sync.Mutex
	marks map[int64]mark // by position
	seen  map[mailbox.Address]*sighting
}

func (n *notes) init(s *Store) {
	n.s, n.marks, n.seen = s, make(map[int64]mark), make(map[mailbox.Address]*sighting)
}

func (n *notes) run() {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.s.closing:
			return
		case <-tick.C:
			n.write(false)
		}
	}
}

// Mark implements mailbox.Store.
func (s *Store) Mark(batch []mailbox.Mark) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.nowMS()
	for i := range batch {
		m := &batch[i]
		old, ok := n.marks[m.Pos]
		if !ok {
			if len(n.marks) >= maxNotes {
				continue
			}
			old = mark{Address: mailbox.Address{App: m.App, Recipient: m.Recipient}, pos: m.Pos, since: now}
		}
		old.attempts = max(old.attempts, m.Attempts)
		if old.deliveredAt == 0 {
			old.deliveredAt = toMS(m.DeliveredAt)
		}
		n.marks[m.Pos] = old
	}
}

// Seen implements mailbox.Store.
func (s *Store) Seen(batch []mailbox.Seen) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range batch {
		key := mailbox.Address{App: m.App, Recipient: m.Recipient}
		old := n.seen[key]
		if old == nil {
			if len(n.seen) >= maxNotes {
				continue
			}
			old = &sighting{}
			n.seen[key] = old
		}
		at := toMS(m.At)
		old.at = max(old.at, at)
		if m.Device != "" {
			if old.devices == nil {
				old.devices = make(map[string]int64)
			}
			old.devices[m.Device] = max(old.devices[m.Device], at)
		}
	}
}

// mark removes and returns what is noted of a copy that is about to be settled.
func (n *notes) mark(pos int64) mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.marks[pos]
	delete(n.marks, pos)
	return m
}

// peek returns what is noted of a copy.
func (n *notes) peek(pos int64) mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marks[pos]
}

// devicesOf are devices seen since then that are not in the table yet.
func (n *notes) devicesOf(app, recipient string, since int64) (devices []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailbox.Address{App: app, Recipient: recipient}]; s != nil {
		for name, at := range s.devices {
			if at >= since {
				devices = append(devices, name)
			}
		}
	}
	return devices
}

// lastSeen is what is not in the table yet.
func (n *notes) lastSeen(app, recipient string) (at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailbox.Address{App: app, Recipient: recipient}]; s != nil {
		at = s.at
	}
	return at
}

// forget drops what is noted of a recipient.
func (n *notes) forget(app, recipient string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.seen, mailbox.Address{App: app, Recipient: recipient})
}

// write writes what has waited long enough, or everything. What fails is lost, with all that would come after it.
func (n *notes) write(all bool) {
	n.mu.Lock()
	before := n.s.nowMS() - noteEvery.Milliseconds()/2
	var marks []mark
	for pos, m := range n.marks {
		if all || m.since <= before {
			marks = append(marks, m)
			delete(n.marks, pos)
		}
	}
	seen := n.seen
	n.seen = make(map[mailbox.Address]*sighting)
	n.mu.Unlock()
	var of []mailbox.Address
	for a := range seen {
		of = append(of, a)
	}
	slices.SortFunc(of, compareAddresses)
	for chunk := range slices.Chunk(of, noteSlice) {
		if err := n.s.writeSeen(chunk, seen); err != nil {
			n.s.cfg.Log.Warn("sightings were not noted", "count", len(of), "error", err)
			break
		}
	}
	for chunk := range slices.Chunk(marks, noteSlice) {
		if err := n.s.writeMarks(chunk); err != nil {
			n.s.cfg.Log.Warn("deliveries were not noted", "count", len(marks), "error", err)
			break
		}
	}
}

// commitSoon has a transaction answer before it is on disk: for what may be lost.
const commitSoon = "SET LOCAL synchronous_commit = off"

func (s *Store) writeMarks(marks []mark) error {
	apps, names := make([]string, len(marks)), make([]string, len(marks))
	for i := range marks {
		apps[i], names[i] = marks[i].App, marks[i].Recipient
	}
	return s.db.Do(context.Background(), "note deliveries", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, commitSoon); err != nil {
			return err
		}
		keys, err := lockNamed(ctx, tx, apps, names)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		for i, m := range marks {
			if keys[i] != 0 {
				b.Queue(markPending, keys[i], m.pos, m.deliveredAt, m.attempts)
			}
		}
		return tx.SendBatch(ctx, b).Close()
	})
}

// lockNamed locks recipients as everybody does, and returns their keys; 0 for one that is not known.
func lockNamed(ctx context.Context, tx pgx.Tx, apps, names []string) ([]int64, error) {
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
	_, err := tx.Exec(ctx, lockRecipients, keys)
	return keys, err
}

// writeSeen writes when recipients and their devices were seen last.
func (s *Store) writeSeen(of []mailbox.Address, seen map[mailbox.Address]*sighting) error {
	boxes := make([]*box, len(of))
	apps, names, ats := make([]string, len(of)), make([]string, len(of)), make([]int64, len(of))
	for i, a := range of {
		boxes[i] = &box{Address: a}
		apps[i], names[i], ats[i] = a.App, a.Recipient, seen[a].at
	}
	conn, err := s.db.Pool().Acquire(context.Background())
	if err != nil {
		return err
	}
	if err = readKeys(context.Background(), conn.Conn(), boxes); err == nil {
		if boxes = slices.DeleteFunc(boxes, func(b *box) bool { return b.key != 0 }); len(boxes) > 0 {
			err = makeRecipients(context.Background(), conn.Conn(), boxes)
		}
	}
	conn.Release()
	if err != nil {
		return err
	}
	return s.db.Do(context.Background(), "note who was seen", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, commitSoon); err != nil {
			return err
		}
		keys, err := lockNamed(ctx, tx, apps, names)
		if err != nil {
			return err
		}
		var owners, last []int64
		var devices []string
		for i, a := range of {
			for name, at := range seen[a].devices {
				if keys[i] != 0 {
					owners, devices, last = append(owners, keys[i]), append(devices, name), append(last, at)
				}
			}
		}
		b := &pgx.Batch{}
		b.Queue("UPDATE recipient r SET last_seen = q.at FROM unnest($1::bigint[], $2::bigint[]) AS q(key, at) WHERE r.key = q.key AND r.last_seen < q.at", keys, ats)
		b.Queue(`INSERT INTO device (recipient, name, last_seen) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])
			ON CONFLICT (recipient, name) DO UPDATE SET last_seen = greatest(device.last_seen, excluded.last_seen)`, owners, devices, last)
		return tx.SendBatch(ctx, b).Close()
	})
}
