// Package store opens the server's stores: mailboxes, objects, endpoints and campaigns, events, and the settings of apps. Callers get
// interfaces; this package alone knows the stores behind them. DESIGN.md gives the reasons for its design.
package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Config says where everything is kept and how. The zero value of every field but Data is a good default.
type Config struct {
	Data       string // folder; it must exist
	Postgres   string // URL of a database that takes the place of the files in Data, and may be shared by nodes; "": the files
	Node       string // name of this server among those that share the database
	Boot       string // unique to this start of the process; "": a random one
	Former     string // boot of the server that had Data before, if it certainly has ended
	MaxPending int    // unsettled notifications of one recipient; 0: 1000
	// MinFree is how many bytes of disk are left alone: below it nothing new is taken. 0: 256 MB for mailboxes and objects.
	MinFree int64
	Ballast int64         // bytes kept beside mailboxes, given up when the disk is full; 0: a quarter of MinFree, at most 8 MB
	Events  time.Duration // how long events are kept; 0: 24 h
	// NoAttempts disables the record of attempts to deliver notifications to connections.
	NoAttempts bool
	Fatal      func(error)  // called once when the disk did not confirm a write: exit loudly
	Damaged    func(error)  // called once when a file is found damaged: nothing more is stored then
	Log        *slog.Logger // nil: discards
	Tables     []Tables     // of modules
	VFS        string       // of the mailboxes' and objects' databases, for fault injection
}

// EventLog keeps events, and knows which it may lack and which it has deleted.
type EventLog interface {
	event.Repairable
	event.Forgetful
	// ForgetRecipient deletes a recipient's events.
	ForgetRecipient(ctx context.Context, app, recipient string) error
}

// Stores is everything that is kept.
type Stores struct {
	Apps
	Clock    func() time.Time // the clock that all of them use
	Events   EventLog
	Progress hook.ProgressStore
	Drained  sink.ProgressStore // how far sinks have come
	// DroppedEvents are those that the log has lost since start because it could not be written fast enough or at all.
	DroppedEvents func() uint64
	Objects       objectstore.Store
	Mailbox       mailbox.Store
	// Changes lists recent changes of the mailboxes' copies.
	Changes   mailbox.Changes
	Endpoints endpoint.Store
	Campaigns campaign.Store
	// Preferences stores recipients' wishes about how they may be reached.
	Preferences preference.Store
	// Shared names the database that several servers share, unlike any other. Empty: it is this one's alone.
	Shared string
	// Steps and Sends keep escalations beyond live. Both nil: this store does not support them.
	Steps mailbox.Escalator
	Sends escalation.Store
	// Reach reports whether the database can be reached. Nil: the data is local.
	Reach Reach
	// Own gives this server work that only one server may do at a time. Nil: it does all of it, because no other server
	// shares the store.
	Own lease.Func
	// Alive lists the boots of the servers that share the store and whose leases are current. Nil: there are no others.
	Alive func(ctx context.Context) ([]string, error)
	// Members lists the servers that share the store and have not ended in order, and Forget takes one off that list which was lost for
	// good: mailbox.ErrNotFound if there is none of this name, ErrLives if it is not lost. Both nil like Own.
	Members func(ctx context.Context) ([]Member, error)
	Forget  func(ctx context.Context, node string) error
	// GiveUp frees this server's leases for others, and Owned lists all leases and their holders. Both nil if Own is.
	GiveUp func(ctx context.Context)
	Owned  func(ctx context.Context) ([]Owned, error)

	erases  []appEraser
	scrub   func(context.Context) (string, error) // of a database
	parts   []Part
	modules map[string]*Database

	data     string
	manifest *manifest
	told     func(error) // Config.Damaged
	damage   damage
}

// Member is a server among those that share a store.
type Member struct {
	Name, Boot string
	Lives      bool          // it has shown so lately
	Silent     time.Duration // since its last sign of life; 0 for a live one
}

// ErrLives says that a server cannot be removed, since it is alive.
var ErrLives = errors.New("the node lives: stop it first")

// Reach reports whether a database can be reached.
type Reach interface {
	// Lost is how long the database could not be reached for; 0: it can be.
	Lost() time.Duration
	// Steady is for how long the database has answered every question; 0: it has not answered a recent one.
	Steady() time.Duration
	// Heard is the time since the database last sent something.
	Heard() time.Duration
}

// Apps is what is set up of apps. The command line changes it beside a running server, which notices within a second.
type Apps struct {
	Access   access.Store
	Hooks    hook.Store
	Sources  source.Store
	Sinks    sink.Store
	Channels channel.Store
	// Templates are not watched: a template is cached for a second.
	Templates template.Store
	// People are not watched either: each page reads them again.
	People signin.Store
	// Audit is the audit log.
	Audit audit.Store
}

func appsOf(s *appsql.Store) Apps {
	return Apps{Access: s, Hooks: &s.Hooks, Sources: &s.Sources, Sinks: &s.Sinks, Channels: &s.Channels, Templates: s, People: s, Audit: s}
}

// Owned is a name of Stores.Own, and the node that it belongs to until then unless that renews it.
type Owned struct {
	Name, Node string
	Until      time.Time
}

// Part is one of the files or connections behind the stores.
type Part struct {
	Name  string
	Close func() error // writes the queue; observers are still informed of these writes

	db      *sqlitedb.DB // nil: it is no file
	trims   interface{ Trim() }
	metrics prometheus.Collector
}

// Parts lists what is to be closed, in the order in which it was opened; each part may use those before it to the end,
// so it is closed in reverse, once nothing calls it any more.
func (s *Stores) Parts() []Part { return s.parts }

// Close closes all parts.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		errs = append(errs, s.parts[i].Close())
	}
	return errors.Join(errs...)
}

// Scrub overwrites in all files what was deleted. On a database it leaves large tables alone, and returns the SQL that overwrites deleted rows
// there.
func (s *Stores) Scrub(ctx context.Context) (left string, err error) {
	for i := range s.parts {
		if db := s.parts[i].db; db != nil {
			if err := db.Scrub(ctx); err != nil {
				return "", err
			}
		}
	}
	if s.scrub == nil {
		return "", nil
	}
	return s.scrub(ctx)
}

// appEraser keeps something of apps.
type appEraser interface {
	EraseApp(ctx context.Context, app string) error
}

// EraseApp deletes the data of a deleted app, except its mailboxes.
func (s *Stores) EraseApp(ctx context.Context, app string) error {
	for _, e := range s.erases {
		if err := e.EraseApp(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// Trim gives the memory of caches back.
func (s *Stores) Trim() {
	for i := range s.parts {
		if t := s.parts[i].trims; t != nil {
			t.Trim()
		}
	}
}

// Metrics returns the metrics of the single stores.
func (s *Stores) Metrics() (list []prometheus.Collector) {
	for i := range s.parts {
		if m := s.parts[i].metrics; m != nil {
			list = append(list, m)
		}
	}
	return list
}

// Open opens all stores, and creates missing ones.
func Open(ctx context.Context, cfg Config) (*Stores, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := checkTables(cfg.Tables); err != nil {
		return nil, err
	}
	s := &Stores{}
	open := s.openSQLite
	if cfg.Postgres != "" {
		open = s.openPostgres
	}
	if err := open(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenApps opens what is set up of apps alone, beside servers that may be running. Where there is nothing yet it makes the
// store if asked to; if not, it fails with fs.ErrNotExist where the store is a file.
func OpenApps(ctx context.Context, cfg Config, create bool) (apps Apps, closing func() error, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Postgres != "" {
		return openAppsSchema(ctx, cfg)
	}
	return openAppsFile(ctx, cfg.Data, create, cfg.Log)
}
