package access

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/guard"
)

// Dev mode serves one app whose key everybody knows and whose clients need no token.
const (
	DevApp = "demo"
	DevKey = "dev"
)

const (
	fetchTimeout  = 5 * time.Second // a client waits for its welcome meanwhile
	touchInterval = time.Minute     // how often the last use of keys is written
)

// Config sets what differs between servers.
type Config struct {
	Dev              bool // serve DevApp as described there
	AllowPrivateURLs bool // JWKS and introspection URLs may be http and lead to private addresses
}

// Registry knows the apps and keys and verifies with them. It works on a copy in memory of what the store holds.
type Registry struct {
	store Store
	cfg   Config
	log   *slog.Logger
	http  *http.Client
	jwks  *jwksCache
	intro *introspector

	life  context.Context // ends with Close: fetches outlive the client that started them, not the registry
	close context.CancelFunc

	loading sync.Mutex // one reload at a time, so that an older one never replaces a newer
	snap    atomic.Pointer[snapshot]

	touchMu sync.Mutex
	touched map[string]time.Time // key id → last use not yet written; bounded by the number of keys
}

var _ Access = (*Registry)(nil)

// snapshot is one state of the store, immutable.
type snapshot struct {
	apps map[string]*App
	only string // the app's name where there is just one
	keys keyring
	list []StoredKey
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
	r := &Registry{store: store, cfg: cfg, log: log, touched: make(map[string]time.Time)}
	r.life, r.close = context.WithCancel(context.WithoutCancel(ctx))
	r.http = guard.Client(guard.Options{AllowPrivate: cfg.AllowPrivateURLs, Timeout: fetchTimeout})
	r.jwks = newJWKSCache(r.http, log)
	r.intro = newIntrospector(r.http)
	err := r.Reload(ctx)
	if err == nil && cfg.Dev && r.snap.Load().apps[DevApp] == nil {
		err = r.CreateApp(ctx, DevApp, AppChange{})
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Run follows the store until ctx ends: changes take effect within a second. It also writes down when keys were used.
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
	err := r.store.Watch(ctx, func() {
		if err := r.Reload(ctx); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "apps could not be reloaded; the former ones stay in force", "error", err)
		}
	})
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch apps: %w", err)
}

// Close ends what is under way. The store is the caller's to close.
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
	// Before the keyring, which points into the list.
	slices.SortFunc(loaded.Keys, func(a, b StoredKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	s := &snapshot{apps: make(map[string]*App, len(loaded.Apps)), keys: newKeyring(loaded.Keys), list: loaded.Keys}
	for i := range loaded.Apps {
		s.apps[loaded.Apps[i].Name] = &loaded.Apps[i]
	}
	if len(loaded.Apps) == 1 {
		s.only = loaded.Apps[0].Name
	} else if r.cfg.Dev && s.apps[DevApp] != nil {
		s.only = DevApp
	}
	r.snap.Store(s)
	r.jwks.retain(s.apps)
	return nil
}

// Key finds the app and roles of an API key.
func (r *Registry) Key(_ context.Context, secret string) (Principal, error) {
	if p, ok := r.findKey(secret); ok {
		return p, nil
	}
	return Principal{}, fmt.Errorf("%w: unknown API key", ErrUnauthenticated)
}

func (r *Registry) findKey(secret string) (Principal, bool) {
	if r.cfg.Dev && secret == DevKey { // no secret, so no constant-time compare
		return Principal{App: DevApp, Key: DevKey, Roles: Admin}, true
	}
	k := r.snap.Load().keys.find(secret)
	if k == nil {
		return Principal{}, false
	}
	r.touch(k.ID, time.Now())
	return Principal{App: k.App, Key: k.ID, Roles: k.Roles}, true
}

func (r *Registry) touch(id string, now time.Time) {
	r.touchMu.Lock()
	r.touched[id] = now
	r.touchMu.Unlock()
}

func (r *Registry) writeTouched(ctx context.Context) {
	r.touchMu.Lock()
	used := r.touched
	r.touched = make(map[string]time.Time)
	r.touchMu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := r.store.TouchKeys(ctx, used); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "last use of API keys could not be written", "error", err)
	}
}
