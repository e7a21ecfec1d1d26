// Package store opens the server's stores: mailboxes, objects, endpoints and campaigns, events, and the settings of apps. Callers get
// interfaces; only this package refers to the stores behind them. DESIGN.md gives the reasons for its design.
package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/digestdb"
	"godwit.dev/godwit/internal/store/sourcedb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Config configures all stores. The zero value of every field but Data is a good default.
type Config struct {
	Data       string // folder; it must exist
	Postgres   string // URL of a database that replaces the files in Data and that several nodes may share; "": the files
	Node       string // name of this server among those that share the database
	Shared     bool   // other servers share the database
	Boot       string // unique to this start of the process; "": a random one
	Former     string // boot of the server that used Data before, if it certainly has ended
	MaxPending int    // unsettled notifications of one recipient; 0: 1000
	// MinFree is a reserve of disk space in bytes: if less is free, new data is refused. 0: 256 MB for mailboxes and objects.
	MinFree int64
	Ballast int64         // size of a file beside the mailboxes that is deleted when the disk is full; 0: a quarter of MinFree, at most 32 MB
	Events  time.Duration // how long events are kept; 0: 24 h
	// NoAttempts disables the record of attempts to deliver notifications to connections.
	NoAttempts bool
	Fatal      func(error)  // called once when the disk did not confirm a write: exit loudly
	Damaged    func(error)  // called once when damage of a file is found: nothing more is stored then
	Log        *slog.Logger // nil: discards
	Tables     []Tables     // of modules
	VFS        string       // of the mailboxes' and objects' databases, for fault injection
}

// EventLog stores events. It records which ones it may lack and which it has deleted.
type EventLog interface {
	event.Repairable
	event.Forgetful
	// ForgetRecipient deletes a recipient's events.
	ForgetRecipient(ctx context.Context, app, recipient string) error
}

// Stores holds all stores of a server.
type Stores struct {
	Apps
	Clock    func() time.Time // the clock of all these stores
	Events   EventLog
	Progress hook.ProgressStore
	Drained  sink.ProgressStore // how far sinks have come
	// DroppedEvents returns how many events the log has lost since start, because it could not be written fast enough or at all.
	DroppedEvents func() uint64
	Objects       objectstore.Store
	Mailbox       mailbox.Store
	// Inboxes are those of the mailboxes' recipients; nil: the store has none.
	Inboxes inbox.Store
	// Changes lists recent changes of the mailboxes' copies.
	Changes   mailbox.Changes
	Endpoints endpoint.Store
	Campaigns campaign.Store
	// Preferences stores recipients' preferences about channels and times.
	Preferences preference.Store
	// Shared identifies the database that several servers share, differently from any other database. Empty: only this server uses it.
	Shared string
	// Steps and Sends store escalations beyond live. Both nil: this store does not support them.
	Steps mailbox.Escalator
	Sends escalation.Store
	// SourceRecords are what sources keep beside their settings.
	SourceRecords source.Records
	// Digests are what waits for a digest.
	Digests digest.Store
	// Reach reports whether the database can be reached. Nil: the data is local.
	Reach Reach
	// Own assigns this server work that only one server may do at a time. Nil: this server does all such work, since no other server shares
	// the store.
	Own lease.Func
	// Alive lists the boots of the servers that share the store and whose leases are current. Nil: there are no others.
	Alive func(ctx context.Context) ([]string, error)
	// Members lists the servers that share the store and have not shut down in order. Forget removes a permanently lost one from that list;
	// it fails with mailbox.ErrNotFound for an unknown name, and with ErrLives for a live server. Both are nil if Own is.
	Members func(ctx context.Context) ([]Member, error)
	Forget  func(ctx context.Context, node string) error
	// Work returns how many commits this server has made since its start, how many copies they stored, and how many operations wait for one;
	// Horizon returns what keeps the shared database from removing dead rows. Both are nil if Own is.
	Work    func() (commits, copies uint64, queued int)
	Horizon func(ctx context.Context) (Horizon, error)
	// GiveUp releases this server's leases, and Owned lists all leases and their holders. Both are nil if Own is.
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

// Member is one of the servers that share a store.
type Member struct {
	Name, Boot string
	Lives      bool          // it has shown so lately
	Silent     time.Duration // time since its last sign of life; 0 for a live server
}

// ErrLives reports that a server cannot be removed, since it is alive.
var ErrLives = errors.New("the node lives: stop it first")

// Reach reports whether a database can be reached.
type Reach interface {
	// Lost returns how long the database has been unreachable; 0: it can be reached.
	Lost() time.Duration
	// Steady returns for how long the database has answered every query; 0: it has not answered a recent one.
	Steady() time.Duration
	// Heard returns the time since the database last sent something.
	Heard() time.Duration
}

// Apps holds the settings of apps. The command line changes them beside a running server, which notices within a second.
type Apps struct {
	Access   access.Store
	Hooks    hook.Store
	Sources  source.Store
	Sinks    sink.Store
	Channels channel.Store
	// Templates are not watched: a template is cached for a second.
	Templates template.Store
	// Segments are not watched: they are read when they are used.
	Segments segment.Store
	// People are not watched either: each page reads them anew.
	People signin.Store
	// Audit is the audit log.
	Audit audit.Store
}

func appsOf(s *appsql.Store) Apps {
	return Apps{Access: s, Hooks: &s.Hooks, Sources: &s.Sources, Sinks: &s.Sinks, Channels: &s.Channels, Segments: &s.Segments, Templates: s, People: s, Audit: s}
}

// Horizon is the oldest transaction for which the database keeps dead rows, and who holds it.
type Horizon struct {
	Since  time.Duration // 0: nobody does, or it is not known for how long
	Holder string        // in words for people
}

// Owned is a name of Stores.Own, with the node that holds its lease and the end of the lease unless the node renews it.
type Owned struct {
	Name, Node string
	Until      time.Time
}

// Part is a file or connection behind the stores.
type Part struct {
	Name  string
	Close func() error // writes the queued operations; observers are still informed of these writes

	db      *sqlitedb.DB // nil: it is no file
	trims   interface{ Trim() }
	metrics prometheus.Collector
}

// Parts lists the parts in the order in which they were opened. A part may use earlier ones until it is closed, so they must be closed in
// reverse order, once nothing calls them any more.
func (s *Stores) Parts() []Part { return s.parts }

// Close closes all parts.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		errs = append(errs, s.parts[i].Close())
	}
	return errors.Join(errs...)
}

// Scrub overwrites deleted data in all files. In a database it skips large tables, and returns the SQL that overwrites deleted rows there.
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

// Trim frees the memory of caches.
func (s *Stores) Trim() {
	for i := range s.parts {
		if t := s.parts[i].trims; t != nil {
			t.Trim()
		}
	}
}

// Metrics returns the metrics of all stores.
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
	cfg.Tables = withShared(cfg.Tables)
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
	records := sourcedb.New(s.Database(sourcesModule))
	s.Digests = digestdb.New(s.Database(digest.Module), func() string { return ulid.Make().String() })
	s.SourceRecords, s.erases = records, append(s.erases, records, s.Digests)
	return s, nil
}

// OpenApps opens only the settings of apps, beside servers that may be running. If create is true it creates a missing store; otherwise it
// fails with fs.ErrNotExist if the store is a missing file.
func OpenApps(ctx context.Context, cfg Config, create bool) (apps Apps, closing func() error, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Postgres != "" {
		return openAppsSchema(ctx, cfg)
	}
	return openAppsFile(ctx, cfg.Data, create, cfg.Log)
}
