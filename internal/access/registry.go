package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/reload"
)

// In dev mode, the server serves one app with a public key, and clients need no token.
const (
	DevApp = "demo"
	DevKey = "dev"
)

const (
	fetchTimeout  = 5 * time.Second // a client waits for its welcome during a fetch
	touchInterval = time.Minute     // how often the last use of keys is written
)

// Config holds settings that differ between servers.
type Config struct {
	Dev bool // serve DevApp as described there
	// Serves: a new app is not served until the data of a deleted app of the same name is erased.
	Serves  bool
	Targets urlguard.Targets // to which JWKS and introspection URLs may lead

	// Origin is the origin of this server's own pages, from OwnOrigin of the public URL; empty: only the request's host determines it.
	Origin string
}

// Registry holds the apps and keys and verifies credentials with them. It uses a copy of the store in memory.
type Registry struct {
	store Store
	cfg   Config
	log   *slog.Logger
	http  *http.Client
	jwks  *jwksCache
	intro *introspector

	life  context.Context // ends with Close: a fetch may outlive the client that started it, but not the registry
	close context.CancelFunc

	revision atomic.Uint64
	loading  sync.Mutex // held during a reload, so that an older state never replaces a newer one
	snap     atomic.Pointer[snapshot]
}

var _ Access = (*Registry)(nil)

// snapshot is one state of the store. It is immutable.
type snapshot struct {
	apps map[string]*App
	only string // name of the app, if there is exactly one
	keys keyring
	list []*liveKey // oldest first

	erasing  []string // see Snapshot
	operator *OperatorKey
	waiting  map[string]*App // new apps that are not served yet, since the data of a deleted app of the name is being erased
	soon     keyring         // their keys
	gathers  map[string]bool // apps of which a category gathers
}

// newSnapshot indexes loaded data. Keys that existed before keep their time of last use. If serves is true, it omits apps whose name is
// being erased, and their keys.
func newSnapshot(loaded Snapshot, before *snapshot, serves bool) *snapshot {
	s := &snapshot{apps: make(map[string]*App, len(loaded.Apps)), erasing: loaded.Erasing, operator: loaded.Operator, waiting: make(map[string]*App)}
	waits := func(app string) bool { return serves && slices.Contains(loaded.Erasing, app) }
	for i := range loaded.Apps {
		if waits(loaded.Apps[i].Name) {
			s.waiting[loaded.Apps[i].Name] = &loaded.Apps[i]
		} else {
			s.apps[loaded.Apps[i].Name] = &loaded.Apps[i]
		}
	}
	if len(loaded.Apps) == 1 {
		s.only = loaded.Apps[0].Name
	}
	s.gathers = gathering(s.apps)
	used := make(map[string]*atomic.Int64)
	if before != nil {
		for _, k := range before.list {
			used[k.ID] = k.used
		}
	}
	for _, k := range loaded.Keys {
		at := used[k.ID]
		if at == nil {
			at = &atomic.Int64{}
		}
		s.list = append(s.list, &liveKey{k, at})
	}
	slices.SortFunc(s.list, func(a, b *liveKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	s.keys = newKeyring(slices.DeleteFunc(slices.Clone(s.list), func(k *liveKey) bool { return waits(k.App) }))
	s.soon = newKeyring(slices.DeleteFunc(slices.Clone(s.list), func(k *liveKey) bool { return !waits(k.App) }))
	return s
}

func (s *snapshot) defaultApp(named string) string {
	if named == "" {
		return s.only
	}
	return named
}

// NewRegistry loads the store. In dev mode it creates DevApp if it is missing. Call Run to follow changes that
// other processes make, and Close at the end.
func NewRegistry(ctx context.Context, store Store, cfg Config, log *slog.Logger) (*Registry, error) {
	r := &Registry{store: store, cfg: cfg, log: log}
	r.life, r.close = context.WithCancel(context.WithoutCancel(ctx))
	r.http = cfg.Targets.Client(urlguard.Options{Timeout: fetchTimeout, ConnsPerHost: urlguard.Unbounded})
	fetch := newFetcher(r.http, cfg.Targets)
	r.jwks = newJWKSCache(fetch, log)
	r.intro = newIntrospector(fetch)
	err := r.Reload(ctx)
	if err == nil && cfg.Dev && r.snap.Load().apps[DevApp] == nil {
		if err = r.CreateApp(ctx, DevApp, AppChange{}); errors.Is(err, ErrExists) { // another node was quicker
			err = r.Reload(ctx)
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Run follows the store until ctx ends: changes take effect within a second. It also stores when keys were last used. Its error is always
// nil: if the store cannot be read for a while, the server continues.
func (r *Registry) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(touchInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				r.writeTouched(context.WithoutCancel(ctx))
				return
			case <-tick.C:
				r.writeTouched(ctx)
			}
		}
	})
	err := reload.Store(ctx, "apps", r.store.Watch, r.Reload, r.log)
	wg.Wait()
	return err
}

// Close ends requests under way. It does not close the store.
func (r *Registry) Close() {
	r.close()
	r.http.CloseIdleConnections()
}

// Reload reads the store anew.
func (r *Registry) Reload(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	loaded, err := r.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("load apps and keys: %w", err)
	}
	// Oldest first, the order in which the snapshot lists keys.
	slices.SortFunc(loaded.Keys, func(a, b StoredKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	s := newSnapshot(loaded, r.snap.Load(), r.cfg.Serves)
	if s.only == "" && r.cfg.Dev && s.apps[DevApp] != nil {
		s.only = DevApp
	}
	r.snap.Store(s)
	r.revision.Add(1)
	r.jwks.retain(s.apps)
	return nil
}

// Revision grows whenever apps or keys may have changed: what was verified before must be verified again.
func (r *Registry) Revision() uint64 { return r.revision.Load() }

// Key returns the app and the roles of an API key.
func (r *Registry) Key(_ context.Context, secret string) (Principal, error) {
	if p, ok := r.findKey(secret); ok {
		return p, nil
	}
	if _, ok := r.Operator(secret); ok {
		return Principal{}, fmt.Errorf("%w: the operator key manages apps and does nothing else", ErrForbidden)
	}
	if k := r.snap.Load().soon.find(secret); k != nil {
		return Principal{}, fmt.Errorf("key %s of app %s: %w", k.ID, k.App, ErrErasing)
	}
	return Principal{}, fmt.Errorf("%w: unknown API key", ErrUnauthenticated)
}

func (r *Registry) findKey(secret string) (Principal, bool) {
	if r.cfg.Dev && secret == DevKey { // DevKey is not secret, so the comparison need not take constant time
		return Principal{App: DevApp, Key: DevKey, Roles: Admin}, true
	}
	k := r.snap.Load().keys.find(secret)
	if k == nil {
		return Principal{}, false
	}
	k.touch(time.Now())
	return Principal{App: k.App, Key: k.ID, Roles: k.Roles}, true
}

func (r *Registry) writeTouched(ctx context.Context) {
	used := make(map[string]time.Time)
	for _, k := range r.snap.Load().list {
		if at := k.lastUsed(); at.After(k.LastUsed) {
			used[k.ID] = at
		}
	}
	if len(used) == 0 {
		return
	}
	if err := r.store.TouchKeys(ctx, used); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "last use of API keys could not be written", "error", err)
	}
}
