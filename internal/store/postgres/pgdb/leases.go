package pgdb

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Terms of leases. An owner stops leaseMargin before others may begin, by its own monotonic clock: work in progress has that long to end.
const (
	leaseFor    = 15 * time.Second
	leaseMargin = 3 * time.Second
	leaseRenew  = 5 * time.Second
	leaseLook   = time.Second     // how often a node checks whether other nodes' leases have become free
	leaseAnswer = 5 * time.Second // a database that answers later counts as away
	// keepUnheld is how long the row of a lease without a holder is kept.
	keepUnheld = 7 * 24 * time.Hour
)

// LeaseSchema is the default schema of leases.
const LeaseSchema = "godwit_lease"

//go:embed lease/*.sql
var leaseFiles embed.FS

// LeaseConfig names the node and the database that stores its leases. URL and Node are required.
type LeaseConfig struct {
	URL    string
	Reach  *Reach // nil: nothing watches whether the database can be reached
	Schema string // "": godwit_lease
	Node   string // no other running node has this name
	Boot   string // unique to this start of the process; "": a random one
	// Former is the boot of an earlier process of this name that certainly has ended: its leases become free at once. Empty: none.
	Former string
	Now    func() time.Time // nil: the database's clock, which nodes agree on
	// Fatal is called once if another process took the node's name while this process could not reach the database. It should end this
	// process. Nil: the event is only logged.
	Fatal func(error)
	Log   *slog.Logger // nil: discards
}

// Leases assigns work that only one node may do at a time.
type Leases struct {
	cfg    LeaseConfig
	db     *DB
	table  string // with its schema, for transactions in other schemas
	holder string
	terms  terms
	began  time.Time
	shared string

	mu       sync.Mutex
	own      map[string]*owned
	draining bool
	named    bool // this node has acquired the lease on its name once
	fatal    sync.Once

	wake chan struct{}
	stop context.CancelFunc
	wg   sync.WaitGroup
}

type terms struct{ ttl, margin, renew, look time.Duration }

// owned is a lease that this node wants.
type owned struct {
	run   func(context.Context, *Lease)
	added bool          // it has a row
	after time.Duration // earliest time to acquire it again after it was given up
	lease *Lease        // held now, or lost while its function still runs; else nil
}

// ErrNodeTaken reports that another live process has this node's name.
var ErrNodeTaken = errors.New("a node of this name runs already: give each its own")

// OpenLeases opens the table of leases for a node. If another process held the lease on the node's name until recently, OpenLeases waits
// until that lease ends, and fails with ErrNodeTaken if that process turns out to be alive.
func OpenLeases(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	return openLeases(ctx, cfg, terms{leaseFor, leaseMargin, leaseRenew, leaseLook})
}

func openLeases(ctx context.Context, cfg LeaseConfig, t terms) (*Leases, error) {
	if cfg.Node == "" || strings.Contains(cfg.Node, "/") {
		return nil, fmt.Errorf("open leases: %q is no name of a node", cfg.Node)
	}
	if cfg.Boot == "" {
		cfg.Boot = rand.Text()
	}
	if cfg.Schema == "" {
		cfg.Schema = LeaseSchema
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	files, err := fs.Sub(leaseFiles, "lease")
	if err != nil {
		return nil, fmt.Errorf("open leases: %w", err)
	}
	db, err := Open(ctx, Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: files, MaxConns: 2, Now: time.Now, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	ls := &Leases{
		cfg: cfg, db: db, table: pgx.Identifier{cfg.Schema, "lease"}.Sanitize(), holder: cfg.Node + "/" + cfg.Boot,
		terms: t, began: time.Now(), own: map[string]*owned{}, wake: make(chan struct{}, 1),
	}
	if cfg.Former != "" {
		if err := ls.free(ctx, cfg.Node+"/"+cfg.Former); err != nil {
			db.Close()
			return nil, Error("free the leases of the process before", err)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ls.stop = stop
	ls.own[ls.nodeName()] = &owned{run: func(ctx context.Context, _ *Lease) { <-ctx.Done() }}
	err = ls.beOne(ctx, running)
	if err == nil {
		err = ls.readShared(ctx)
	}
	if err != nil {
		stop()
		ls.wg.Wait()
		db.Close()
		return nil, fmt.Errorf("open leases as node %s: %w", cfg.Node, err)
	}
	ls.wg.Go(func() { ls.loop(running) })
	return ls, nil
}

// ofNodes is the prefix of leases on nodes' names.
const ofNodes = "node/"

func (ls *Leases) nodeName() string { return ofNodes + ls.cfg.Node }

// Shared returns an id of the database, which is the same on all nodes and different from any other database's.
func (ls *Leases) Shared() string { return ls.shared }

func (ls *Leases) readShared(ctx context.Context) error {
	return Error("read the database's name", ls.db.pool.QueryRow(ctx, "SELECT name FROM shared").Scan(&ls.shared))
}

// Node is the name of this node.
func (ls *Leases) Node() string { return ls.cfg.Node }

func (ls *Leases) tick() time.Duration { return time.Since(ls.began) }

// now returns the time in milliseconds that a test has set; else nil.
func (ls *Leases) now() *int64 {
	if ls.cfg.Now == nil {
		return nil
	}
	millis := ls.cfg.Now().UnixMilli()
	return &millis
}

// beOne acquires the lease on the node's name. It waits while another process holds that lease, and fails if the process renews it: a
// killed one does not.
func (ls *Leases) beOne(ctx, running context.Context) error {
	tick := time.NewTicker(ls.terms.look)
	defer tick.Stop()
	var holder string
	var until int64
	for {
		if err := ls.round(ctx, running); err != nil {
			return err
		}
		if ls.isNamed() {
			return errors.Join(ls.tidy(ctx), ls.join(ctx))
		}
		by, to, err := ls.holds(ctx, ls.nodeName())
		switch {
		case err != nil:
			return err
		case holder == "":
			holder, until = by, to
		case by != holder || to > until:
			return ErrNodeTaken
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (ls *Leases) isNamed() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.named
}

func (ls *Leases) holds(ctx context.Context, name string) (holder string, until int64, err error) {
	err = ls.db.pool.QueryRow(ctx, "SELECT holder, until FROM lease WHERE name = $1", name).Scan(&holder, &until)
	return holder, until, err
}

// Own calls run whenever this node holds the lease of that name: at once if the lease is free, else within a second of its end. The context
// of run ends when the lease is lost or released; run then has 3 s to return, and is called again when the node has acquired the lease
// again. If run returns earlier, the lease is released and the next node that checks acquires it. Each name can be owned once. release
// releases the lease after run has returned.
func (ls *Leases) Own(name string, run func(context.Context, *Lease)) (release func()) {
	o := &owned{run: run}
	ls.mu.Lock()
	if ls.own[name] != nil {
		ls.mu.Unlock()
		panic("lease " + name + " is owned twice by one node")
	}
	ls.own[name] = o
	ls.mu.Unlock()
	ls.look()
	return func() { ls.release(name, o) }
}

func (ls *Leases) look() {
	select {
	case ls.wake <- struct{}{}:
	default:
	}
}

func (ls *Leases) release(name string, o *owned) {
	ls.mu.Lock()
	if ls.own[name] != o {
		ls.mu.Unlock()
		return
	}
	delete(ls.own, name)
	l := o.lease
	ls.mu.Unlock()
	if l != nil {
		ls.end(context.Background(), []*Lease{l}, context.Canceled)
	}
}

// end ends leases: it ends the contexts of their functions, waits for these, and releases the leases.
func (ls *Leases) end(ctx context.Context, list []*Lease, cause error) {
	names, epochs := make([]string, len(list)), make([]int64, len(list))
	for i, l := range list {
		l.cancel(cause)
		names[i], epochs[i] = l.name, l.epoch
	}
	for _, l := range list {
		<-l.done
	}
	ctx, cancel := Within(ctx, leaseAnswer)
	defer cancel()
	if err := ls.giveUp(ctx, names, epochs); err != nil {
		ls.cfg.Log.WarnContext(ctx, "leases end on their own, as they could not be given up", "error", err)
	}
}

// Drain releases all leases and acquires no more. The node keeps its name.
func (ls *Leases) Drain(ctx context.Context) {
	ls.mu.Lock()
	ls.draining = true
	var list []*Lease
	for name, o := range ls.own {
		if o.lease != nil && name != ls.nodeName() {
			list = append(list, o.lease)
		}
	}
	ls.mu.Unlock()
	ls.end(ctx, list, context.Canceled)
}

// Close gives everything up.
func (ls *Leases) Close() {
	ls.Drain(context.Background())
	ls.mu.Lock()
	l := ls.own[ls.nodeName()].lease
	ls.mu.Unlock()
	ls.stop()
	ls.wg.Wait()
	if l != nil {
		ls.leave(context.Background())
		ls.end(context.Background(), []*Lease{l}, context.Canceled)
	}
	ls.db.Close()
}
