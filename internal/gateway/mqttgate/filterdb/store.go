// Package filterdb keeps the filters of topics that clients of MQTT follow while they are away. A message of a matching topic goes to a
// mailbox of the client's device.
package filterdb

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed sqlite postgres
var migrations embed.FS

// Migrations are those of the tables.
func Migrations() (sqlite, postgres fs.FS) {
	sqlite, _ = fs.Sub(migrations, "sqlite")     // the folder is there
	postgres, _ = fs.Sub(migrations, "postgres") // the same
	return sqlite, postgres
}

// Limits.
const (
	maxFilters = 100_000         // of an app
	maxQueued  = 10_000          // changes that wait for the disk
	patience   = 5 * time.Second // for the store at a publish
)

// countChange counts a change in the revision, by which nodes notice those of others. There is no revision before the first change, so that
// tables in which nothing was stored are empty.
const countChange = "INSERT INTO revision (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = revision.n + 1"

// Device is a device with filters.
type Device struct{ App, Recipient, Name string }

// readable is how much of a recipient's name is in that of the device's mailbox.
const readable = 64

// Mailbox returns the recipient whose mailbox holds what waits for the device.
func (d Device) Mailbox() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s%s", len(d.Recipient), d.Recipient, d.Name))
	return "mqtt:" + d.Recipient[:min(len(d.Recipient), readable)] + ":" + hex.EncodeToString(sum[:8])
}

// Database is a database with the tables: *store.Database.
type Database interface {
	Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
	Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
}

// Mailbox erases what waits for devices whose time is over: *mailbox.Mailbox.
type Mailbox interface {
	Erase(ctx context.Context, app, recipient string) error
}

// Config are the parts of a Store.
type Config struct {
	DB      Database
	Mailbox Mailbox
	Several bool // other nodes change the filters too
	// Parse takes a filter apart: the queue that shares it, if one does, and the patterns of topics.
	Parse func(filter string) (queue string, patterns []string)
	Now   func() time.Time
	Log   *slog.Logger
}

// Store keeps filters, with an index of them in memory. Changes are carried out in order, with one commit for all that wait.
type Store struct {
	cfg     Config
	mu      sync.Mutex
	apps    map[string]*index
	rev     int64
	changes []change
	running bool
	workers sync.WaitGroup
	ctx     context.Context //nolint:containedctx // ends with the store
	stop    context.CancelFunc
}

// change is a change of a device's filters.
type change struct {
	of     Device
	filter string // empty: of all
	until  time.Time
	gone   bool
	only   bool // it changes the time alone
	done   func(error)
}

// Open reads the filters. Close must be called.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{cfg: cfg}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.load(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// Close carries out what waits, and ends the store.
func (s *Store) Close() error {
	s.workers.Wait()
	s.stop()
	return nil
}

// load reads all filters.
func (s *Store) load(ctx context.Context) error {
	apps := make(map[string]*index)
	var rev int64
	err := s.cfg.DB.Read(ctx, "read the filters of MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		clear(apps)
		if err := tx.Each(ctx, "SELECT n FROM revision", nil, func(r sqltx.Row) error { return r.Scan(&rev) }); err != nil {
			return err
		}
		return tx.Each(ctx, "SELECT app, recipient, device, filter, until FROM filter ORDER BY app, recipient, device, filter", nil, func(r sqltx.Row) error {
			var d Device
			var filter string
			var until int64
			if err := r.Scan(&d.App, &d.Recipient, &d.Name, &filter, &until); err != nil {
				return err
			}
			s.of(apps, d.App).add(d, filter, time.UnixMilli(until))
			return nil
		})
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps, s.rev = apps, rev
	return nil
}

func (s *Store) of(apps map[string]*index, app string) *index {
	if apps[app] == nil {
		apps[app] = newIndex(s.cfg.Parse)
	}
	return apps[app]
}

// errFull reports that an app's devices have as many filters as they may have.
var errFull = errors.New("the app's devices keep as many filters as they may")

// Keep stores a filter of a device until a time, and calls done once that is on disk.
func (s *Store) Keep(d Device, filter string, until time.Time, done func(error)) {
	s.mu.Lock()
	full := s.apps[d.App] != nil && s.apps[d.App].filters >= maxFilters && !s.apps[d.App].has(d, filter)
	s.mu.Unlock()
	if full {
		done(errFull)
		return
	}
	s.add(change{of: d, filter: filter, until: until, done: done})
}

// Drop ends a filter of a device. On this node nothing matches it from now on.
func (s *Store) Drop(d Device, filter string) {
	s.mu.Lock()
	if x := s.apps[d.App]; x != nil {
		x.remove(d, filter)
	}
	s.mu.Unlock()
	s.add(change{of: d, filter: filter, gone: true})
}

// Forget ends all filters of a device, and erases what waits for it.
func (s *Store) Forget(d Device) { s.add(change{of: d, gone: true}) }

// Extend changes until when the filters of a device are kept.
func (s *Store) Extend(d Device, until time.Time) { s.add(change{of: d, until: until, only: true}) }

func (s *Store) add(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changes) >= maxQueued {
		if c.done != nil {
			go c.done(errFull)
		}
		return
	}
	s.changes = append(s.changes, c)
	if !s.running {
		s.running = true
		s.workers.Go(s.work)
	}
}

func (s *Store) work() {
	for {
		s.mu.Lock()
		batch := s.changes
		s.changes = nil
		if len(batch) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.carryOut(batch)
	}
}

// carryOut stores changes with one commit, then makes them in the index, and reports them.
func (s *Store) carryOut(batch []change) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for i := range batch {
		if c := &batch[i]; c.gone && c.filter == "" { // before a new filter of the same device can collect anything
			if err := s.cfg.Mailbox.Erase(ctx, c.of.App, c.of.Mailbox()); err != nil && !errors.Is(err, mailbox.ErrNotFound) {
				s.cfg.Log.WarnContext(ctx, "what waits for an MQTT device could not be erased", "app", c.of.App, "recipient", c.of.Recipient, "error", err)
			}
		}
	}
	var rev int64
	err := s.cfg.DB.Change(ctx, "store filters of MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		for i := range batch {
			if err := batch[i].store(ctx, tx); err != nil {
				return err
			}
		}
		return tx.Each(ctx, "SELECT n FROM revision", nil, func(r sqltx.Row) error { return r.Scan(&rev) })
	})
	if err == nil {
		s.mu.Lock()
		for i := range batch {
			s.of(s.apps, batch[i].of.App).change(&batch[i])
		}
		if rev == s.rev+1 { // else another node has made changes that are read at the next publish
			s.rev = rev
		}
		s.mu.Unlock()
	} else {
		s.cfg.Log.WarnContext(ctx, "filters of MQTT devices could not be stored", "changes", len(batch), "error", err)
	}
	for i := range batch {
		if batch[i].done != nil {
			batch[i].done(err)
		}
	}
}

func (c *change) store(ctx context.Context, tx sqltx.Tx) (err error) {
	key := []any{c.of.App, c.of.Recipient, c.of.Name}
	switch {
	case c.only:
		_, err = tx.Exec(ctx, "UPDATE filter SET until = $4 WHERE app = $1 AND recipient = $2 AND device = $3", append(key, c.until.UnixMilli())...)
	case c.gone && c.filter == "":
		_, err = tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2 AND device = $3", key...)
	case c.gone:
		_, err = tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2 AND device = $3 AND filter = $4", append(key, c.filter)...)
	default:
		_, err = tx.Exec(ctx, `INSERT INTO filter (app, recipient, device, filter, until) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, recipient, device, filter) DO UPDATE SET until = excluded.until`, append(key, c.filter, c.until.UnixMilli())...)
	}
	return err
}

// Fresh reads the filters again if another node has changed some. Publishes that follow match the filters that were stored before the call.
func (s *Store) Fresh(ctx context.Context) error {
	if !s.cfg.Several {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var rev int64
	err := s.cfg.DB.Read(ctx, "read the revision of MQTT filters", func(ctx context.Context, tx sqltx.Tx) error {
		return tx.Each(ctx, "SELECT n FROM revision", nil, func(r sqltx.Row) error { return r.Scan(&rev) })
	})
	s.mu.Lock()
	same := rev == s.rev
	s.mu.Unlock()
	if err != nil || same {
		return err
	}
	return s.load(ctx)
}

// Match returns the mailboxes of the devices that follow a topic. Of those that share a queue it chooses one, if possible one that is here.
func (s *Store) Match(app, name string, here func(mailbox string) bool) []string {
	s.mu.Lock()
	x := s.apps[app]
	if x == nil {
		s.mu.Unlock()
		return nil
	}
	found, shared := x.match(name, s.cfg.Now())
	s.mu.Unlock()
	return choose(found, shared, here)
}

// Filters returns the filters of a device.
func (s *Store) Filters(d Device) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.apps[d.App]; x != nil {
		return x.filtersOf(d, s.cfg.Now())
	}
	return nil
}

// Sweep forgets the devices whose time is over.
func (s *Store) Sweep() {
	s.mu.Lock()
	var over []Device
	now := s.cfg.Now()
	for _, x := range s.apps {
		over = x.over(over, now)
	}
	s.mu.Unlock()
	for _, d := range over {
		s.Forget(d)
	}
}

// EraseRecipient deletes the filters of a recipient's devices and their waiting messages. It returns the number of devices.
func (s *Store) EraseRecipient(ctx context.Context, app, recipient string) (int, error) {
	var devices []Device
	err := s.cfg.DB.Read(ctx, "read the filters of a recipient's MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		devices = nil
		return tx.Each(ctx, "SELECT DISTINCT device FROM filter WHERE app = $1 AND recipient = $2", []any{app, recipient}, func(r sqltx.Row) error {
			d := Device{App: app, Recipient: recipient}
			if err := r.Scan(&d.Name); err != nil {
				return err
			}
			devices = append(devices, d)
			return nil
		})
	})
	if err != nil || len(devices) == 0 {
		return 0, err
	}
	err = s.cfg.DB.Change(ctx, "erase the filters of a recipient's MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2", app, recipient)
		return err
	})
	if err == nil {
		err = s.load(ctx) // before the mailboxes are erased, so that nothing matches any more
	}
	for _, d := range devices {
		if gone := s.cfg.Mailbox.Erase(ctx, app, d.Mailbox()); gone != nil && !errors.Is(gone, mailbox.ErrNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return len(devices), err
}

// EraseApp deletes the filters of an app. Its mailboxes are deleted with it.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	err := s.cfg.DB.Change(ctx, "erase the filters of an app's MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM filter WHERE app = $1", app)
		return err
	})
	if err != nil {
		return err
	}
	return s.load(ctx)
}
