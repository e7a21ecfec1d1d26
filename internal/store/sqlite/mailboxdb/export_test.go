package mailboxdb

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// SmallSlices seals the index every 2^bits rows, so that tests reach the sealing.
func (c *Config) SmallSlices(bits uint) { c.sliceBits = bits }

// Hold keeps the writer in a transaction until release is called.
func (s *Store) Hold() (release func()) {
	held, let, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.db.Do(context.Background(), func(*sqlite.Conn) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	return func() {
		close(let)
		<-done
	}
}

// Known counts the recipients in memory, after their counters are written.
func (s *Store) Known() (n int, err error) {
	if err := s.flushCounters(); err != nil {
		return 0, err
	}
	if err := s.db.Do(context.Background(), func(*sqlite.Conn) error { return nil }); err != nil {
		return 0, err
	}
	return s.InMemory(), nil
}

// InMemory counts the recipients in memory now.
func (s *Store) InMemory() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		for i := range a.members {
			n += a.members[i].Len()
		}
	}
	return n
}

// Uncopied returns how many bytes of the log are not in the file yet.
func (s *Store) Uncopied() int64 { return s.db.Uncopied() }

// Contents counts stored contents.
func (s *Store) Contents(ctx context.Context) (n int, err error) { return s.count(ctx, "content") }

// Nacked counts copies with a record of rejections by clients.
func (s *Store) Nacked(ctx context.Context) (n int, err error) { return s.count(ctx, "nack") }

func (s *Store) count(ctx context.Context, table string) (n int, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare("SELECT count(*) FROM " + table)
		if err != nil {
			return err
		}
		return each(st, func(st *sqlite.Stmt) error {
			n = st.ColumnInt(0)
			return nil
		})
	})
	return n, err
}

// Rows counts notifications, pending and settled, with and without rows of their own.
func (s *Store) Rows(ctx context.Context) (n int, err error) {
	n, err = s.count(ctx, "notification")
	if err != nil {
		return 0, err
	}
	packed, err := s.Packed(ctx)
	return n + packed, err
}

// Packed counts notifications without a row of their own.
func (s *Store) Packed(ctx context.Context) (n int, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		packed, err := CountPacked(c)
		n = int(packed)
		return err
	})
	return n, err
}

// PackedKeys returns the numbers of the recipients in packs, with the number of copies of each.
func (s *Store) PackedKeys(ctx context.Context) (keys map[uint32]int, err error) {
	keys = make(map[uint32]int)
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare(selectPacks)
		if err != nil {
			return err
		}
		return eachPack(st, 0, s.pos, func(p *pack) error {
			for _, c := range p.copies {
				keys[c.recipient]++
			}
			return nil
		})
	})
	return keys, err
}

// PackFrom sets from how many copies on a publish is packed.
func (c *Config) PackFrom(copies int) { c.minPacked = copies }

// Erasing counts recipients whose rows are not all deleted yet.
func (s *Store) Erasing(ctx context.Context) (n int, err error) { return s.count(ctx, "erasure") }

// EraseBegun erases a recipient up to the commit that deletes the first rows; most limits their number.
func (s *Store) EraseBegun(ctx context.Context, app, name string, most int) error {
	op := &eraseOp{waitOp: newWaitOp(), s: s, app: app, name: name}
	if err := s.run(ctx, op, op.done, false); err != nil {
		return err
	}
	var rows []int64
	err := s.read(ctx, "", func(c *sqlite.Conn) error {
		rows = rows[:0]
		return s.eachOf(c, op.key, 1<<63-1, func(pos int64) bool {
			if len(rows) < most {
				rows = append(rows, pos)
			}
			return len(rows) < most
		})
	})
	if err != nil {
		return err
	}
	first := &eraseRowsOp{waitOp: newWaitOp(), s: s, key: op.key, rows: rows}
	return s.run(ctx, first, first.done, true)
}

// IDHash is an id's hash in the index.
func IDHash(app, id string) uint32 { return idHash(app, id) }

// Read reads a copy at a position as if the index had just returned that position.
func (s *Store) Read(ctx context.Context, pos int64, app, to string, now time.Time) (item *mailbox.Item, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		rd, err := s.newReader(c)
		if err == nil {
			item, err = rd.item(pos, app, to, now.UnixMilli())
		}
		return err
	})
	return item, err
}

// MaxRetried bounds what SettleAgain keeps.
const MaxRetried = maxRetried

// SettleAgain stores settles as if the disk were full, until they are retried, and returns how many are stored.
func (s *Store) SettleAgain(batch []*mailbox.Settle) int {
	s.notes.settleAgain(batch, mailbox.ErrNoSpace)
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	return len(s.notes.settles)
}

// RetrySettles hands them over.
func (s *Store) RetrySettles() { s.notes.retrySettles() }

// Sealed counts sealed slices.
func (s *Store) Sealed() int { return len(s.sealed.all()) }

// WriteNotes writes all sightings and marks at once.
func (s *Store) WriteNotes() error {
	s.notes.submit(s.notes.TakeAll())
	return s.db.DoBulk(context.Background(), 1, func(*sqlite.Conn) error { return nil })
}

// EntryBytes is the size of a pending copy in memory.
const EntryBytes = unsafe.Sizeof(entry{})

// Escalating counts rows of escalations and of their plans, and steps that wait in memory.
func (s *Store) Escalating(ctx context.Context) (rows, plans, waiting int, err error) {
	if rows, err = s.count(ctx, "escalation"); err != nil {
		return 0, 0, 0, err
	}
	if plans, err = s.count(ctx, "plan"); err != nil {
		return 0, 0, 0, err
	}
	err = s.db.Do(ctx, func(*sqlite.Conn) error {
		waiting = len(s.steps.queue) + len(s.steps.given)
		return nil
	})
	return rows, plans, waiting, err
}

// Unchanged counts notifications whose rows do not say whether they are settled.
func (s *Store) Unchanged(ctx context.Context) (n int, err error) {
	packed, err := s.Packed(ctx)
	if err != nil {
		return 0, err
	}
	n, err = s.count(ctx, "notification WHERE open = 2")
	return n + packed, err
}

// Settlements counts the rows in which commits have stored what they settled.
func (s *Store) Settlements(ctx context.Context) (n int, err error) {
	return s.count(ctx, "settlement")
}

// vainOp moves a packed copy to a row and fails.
type vainOp struct {
	waitOp
	s   *Store
	pos int64
}

func (op *vainOp) Apply(*sqlite.Conn) error {
	return errors.Join(op.s.moveOut(op.pos), errors.New("in vain"))
}

// MoveOutInVain moves a packed copy to a row in a commit that fails.
func (s *Store) MoveOutInVain(ctx context.Context, pos int64) error {
	op := &vainOp{waitOp: newWaitOp(), s: s, pos: pos}
	return s.run(ctx, op, op.done, false)
}

// PruneAround runs one Prune, and calls between after its search and before its deletion.
func (s *Store) PruneAround(ctx context.Context, retainedSince time.Time, between func()) error {
	since := millis.Of(retainedSince)
	if err := s.flushForPrune(ctx, since); err != nil {
		return err
	}
	lists, _, err := s.prunable(ctx, 0, since)
	if err != nil {
		return err
	}
	between()
	return s.deleteOld(ctx, lists, since)
}

// OpenUnpacked creates a file of the last version that did not pack copies.
func OpenUnpacked(ctx context.Context, path string) (*sqlitedb.DB, error) {
	return sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: []string{schema1, schema2, schema3, schema4, schema5}}, nil)
}

// OpenFormer creates a file of the last version whose commits did not store their settlements.
func OpenFormer(ctx context.Context, path string) (*sqlitedb.DB, error) {
	return sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: []string{schema1, schema2, schema3, schema4}}, nil)
}

// Tails returns how many slices have their index in memory.
func Tails(s *Store) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.tails)
}
