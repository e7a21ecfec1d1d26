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
	"math"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed sqlite postgres
var migrations embed.FS

// Migrations are those of the tables.
func Migrations() (sqlite, postgres fs.FS) { return sqltx.Migrations(migrations) }

// Limits.
const (
	maxFilters = 100_000         // of an app
	maxQueued  = 10_000          // new filters that wait for the disk
	patience   = 5 * time.Second // for the store at a publish
	endedLasts = time.Hour       // how long the end of a session is known; a publish takes seconds
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second // between two tries to store what ends filters
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

// Mailbox erases what waits for devices whose time is over: *mailbox.Mailbox.
type Mailbox interface {
	Erase(ctx context.Context, app, recipient string) error
}

// Config are the parts of a Store.
type Config struct {
	DB      sqltx.Database
	Mailbox Mailbox
	Several bool // other nodes change the filters too
	// Parse takes a filter apart: the queue that shares it, if one does, and the patterns of topics.
	Parse func(filter string) (queue string, patterns []string)
	Now   func() time.Time
	Log   *slog.Logger
}

// Store keeps filters, with an index of them in memory. Changes of a device are carried out in order, with one commit for all that wait.
type Store struct {
	cfg        Config
	reading    sync.Mutex // held while the table is read or written, and the index made of it
	mu         sync.Mutex
	apps       map[string]*index
	rev        int64   // up to which all changes are in the index
	waiting    changes // for the disk
	doing      changes // those of them that are being stored
	running    bool
	asking     []func() // wait for a reading
	moves      Move     // nil: nothing is moved
	refreshing bool
	workers    sync.WaitGroup
	closing    chan struct{}
	close      sync.Once
	ctx        context.Context // ends with the store
	stop       context.CancelFunc
}

// Move moves what waits for a device by shared filters to their other members, before it is erased with the rest. before: only what was matched at an
// earlier revision.
type Move func(ctx context.Context, d Device, before int64) error

// MoveBy sets the function that moves messages. It must be called before the first change.
func (s *Store) MoveBy(move Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves = move
}

// Open reads the filters. Close must be called.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, closing: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.load(ctx, anew); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// Close carries out what waits, and ends the store.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.closing) // no worker starts any more
	})
	s.workers.Wait()
	s.stop()
	return nil
}

// anew is a revision that no index has.
const anew = math.MaxInt64

// load reads all filters, unless the index has all changes up to a revision already.
func (s *Store) load(ctx context.Context, upTo int64) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	known := s.rev >= upTo
	s.mu.Unlock()
	if known {
		return nil
	}
	apps, rev, err := s.read(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps, s.rev = apps, rev
	s.endWaiting()
	return nil
}

// read reads the table.
func (s *Store) read(ctx context.Context) (apps map[string]*index, rev int64, err error) {
	err = s.cfg.DB.Read(ctx, "read the filters of MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		apps = make(map[string]*index)
		if err := tx.Each(ctx, "SELECT n FROM revision", nil, func(r sqltx.Row) error { return r.Scan(&rev) }); err != nil { // before the rows, which are then not older
			return err
		}
		err := tx.Each(ctx, "SELECT app, recipient, device, filter, until FROM filter ORDER BY app, recipient, device, filter", nil, func(r sqltx.Row) error {
			var d Device
			var filter string
			var until int64
			if err := r.Scan(&d.App, &d.Recipient, &d.Name, &filter, &until); err != nil {
				return err
			}
			s.of(apps, d.App).add(d, filter, time.UnixMilli(until))
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Each(ctx, "SELECT app, recipient, device, n, at FROM ended", nil, func(r sqltx.Row) error {
			var d Device
			var e ending
			if err := r.Scan(&d.App, &d.Recipient, &d.Name, &e.rev, &e.at); err != nil {
				return err
			}
			s.of(apps, d.App).ended[d] = e
			return nil
		})
	})
	return apps, rev, err
}

func (s *Store) of(apps map[string]*index, app string) *index {
	if apps[app] == nil {
		apps[app] = newIndex(s.cfg.Parse)
	}
	return apps[app]
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
	return s.load(ctx, rev)
}

// Refresh calls done once the filters that were stored before the call are in the index. Calls share a reading.
func (s *Store) Refresh(done func()) {
	if !s.cfg.Several {
		done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking = append(s.asking, done); !s.refreshing && !s.ended() {
		s.refreshing = true
		s.workers.Go(s.refresh)
	}
}

func (s *Store) refresh() {
	for {
		s.mu.Lock()
		asking := s.asking
		s.asking = nil
		if len(asking) == 0 {
			s.refreshing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := s.Fresh(s.ctx); err != nil {
			s.cfg.Log.Warn("filters of MQTT devices could not be read for clients that connect", "clients", len(asking), "error", err)
		}
		for _, done := range asking {
			done()
		}
	}
}

// Match returns the mailboxes of the devices that follow a topic. Of those that share a queue it chooses one, if possible one that is here; shares are the
// filters by which it has chosen a mailbox. rev is the revision of the filters: a message that was matched at one before Ended is for a former session of
// a device.
func (s *Store) Match(app, name string, here func(mailbox string) bool) (boxes []string, shares map[string][]string, rev int64) {
	s.mu.Lock()
	x, rev := s.apps[app], s.rev
	if x == nil {
		s.mu.Unlock()
		return nil, nil, rev
	}
	found, shared := x.match(name, s.cfg.Now())
	s.mu.Unlock()
	boxes, shares = choose(found, shared, here)
	return boxes, shares, rev
}

// Members returns the mailboxes of the devices that share a filter, sorted.
func (s *Store) Members(app, share string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.apps[app]; x != nil {
		return x.members(share, s.cfg.Now())
	}
	return nil
}

// Ended returns the revision with which the device's last session ended; 0: none has lately. A message that was matched before that can be stored
// after the session's messages were erased; it is not for the present session.
func (s *Store) Ended(d Device) (rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.apps[d.App]; x != nil {
		return x.ended[d].rev
	}
	return 0
}

// Known reports whether a device has filters, also if their time is over.
func (s *Store) Known(d Device) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.apps[d.App]
	return x != nil && x.devices[d] != nil
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

// Sweep forgets the devices whose time is over, and the ends of sessions before which nothing can have been matched that is not stored.
func (s *Store) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []change
	now := s.cfg.Now()
	for _, x := range s.apps {
		for d, k := range x.devices {
			if !k.until.After(now) {
				over = append(over, change{of: d, what: forget})
			}
		}
		for d, e := range x.ended {
			if now.Sub(time.UnixMilli(e.at)) > endedLasts {
				over = append(over, change{of: d, what: unmark, rev: e.rev})
			}
		}
	}
	for _, c := range over {
		s.end(&c)
		s.add(c)
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
		if _, err := tx.Exec(ctx, "DELETE FROM ended WHERE app = $1 AND recipient = $2", app, recipient); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM filter WHERE app = $1 AND recipient = $2", app, recipient)
		return err
	})
	if err == nil {
		err = s.load(ctx, anew) // before the mailboxes are erased, so that nothing matches any more
	}
	for _, d := range devices {
		if moved := s.move(ctx, d, anew); moved != nil {
			err = errors.Join(err, moved)
			continue
		}
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
		if _, err := tx.Exec(ctx, "DELETE FROM ended WHERE app = $1", app); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM filter WHERE app = $1", app)
		return err
	})
	if err != nil {
		return err
	}
	return s.load(ctx, anew)
}

// move moves what waits for a device by shared filters.
func (s *Store) move(ctx context.Context, d Device, before int64) error {
	s.mu.Lock()
	move := s.moves
	s.mu.Unlock()
	if move == nil {
		return nil
	}
	return move(ctx, d, before)
}
