package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	jwksBytes   = 256 << 10        // a set of 64 RSA keys with certificates is about 200 KB
	jwksKeys    = 64               // limited because a token without key id is verified with each
	jwksRefresh = 10 * time.Minute // how long a withdrawn key may remain valid while the issuer answers
	jwksStale   = time.Hour        // and while it does not
	jwksEvery   = 10 * time.Second // tokens with unknown key ids cause at most one fetch in this time
	jwksBurst   = 3                // after the first few
)

// jwksID identifies one issuer: its keys are used for no other issuer, whatever their key ids.
type jwksID struct{ app, url string }

// jwksCache keeps the key sets of the apps' JWKS URLs, at most one per app.
type jwksCache struct {
	asks   *fetcher
	log    *slog.Logger
	flight singleflight.Group
	mu     sync.Mutex
	byApp  map[string]*jwksEntry
}

type jwksEntry struct {
	id         jwksID
	limit      *rate.Limiter
	keys       []JWTKey
	fetched    time.Time // zero: never
	refreshing bool
}

func newJWKSCache(f *fetcher, log *slog.Logger) *jwksCache {
	return &jwksCache{asks: f, log: log, byApp: make(map[string]*jwksEntry)}
}

// keys returns the issuer's keys. Unless ask is false, it fetches them if they are missing, old, or lack the key id. Callers share one
// fetch, whose context is life and not that of the caller that started it.
func (c *jwksCache) keys(life context.Context, id jwksID, kid string, now time.Time, ask bool) ([]JWTKey, error) {
	c.mu.Lock()
	e := c.entry(id)
	keys, fetched := e.keys, e.fetched
	known := !fetched.IsZero() && now.Sub(fetched) < jwksStale && hasKID(keys, kid)
	if known && (e.refreshing || now.Sub(fetched) < jwksRefresh) {
		c.mu.Unlock()
		return keys, nil
	}
	c.mu.Unlock()
	if !ask {
		return nil, &AskError{id.app}
	}

	_, err, _ := c.flight.Do(id.app+"\x00"+id.url, func() (any, error) { return nil, c.refresh(life, id, e, now) })

	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.fetched.IsZero() && now.Sub(e.fetched) < jwksStale && (err == nil || hasKID(e.keys, kid)) {
		return e.keys, nil
	}
	if err == nil {
		err = errors.New("it was asked too often")
	}
	return nil, fmt.Errorf("%w: key set of app %s: %w", ErrUnavailable, id.app, err)
}

// entry returns the entry of an issuer, and creates it if needed. It drops the entry of the app's former URL.
func (c *jwksCache) entry(id jwksID) *jwksEntry {
	e := c.byApp[id.app]
	if e == nil || e.id != id {
		e = &jwksEntry{id: id, limit: rate.NewLimiter(rate.Every(jwksEvery), jwksBurst)}
		c.byApp[id.app] = e
	}
	return e
}

// retain drops the key sets of deleted apps.
func (c *jwksCache) retain(apps map[string]*App) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.byApp {
		if apps[name] == nil {
			delete(c.byApp, name)
		}
	}
}

// refresh fetches the key set, unless it was fetched since the caller's lookup or the rate limit forbids it.
func (c *jwksCache) refresh(life context.Context, id jwksID, e *jwksEntry, looked time.Time) error {
	c.mu.Lock()
	e.refreshing = !e.fetched.After(looked) && e.limit.Allow()
	skip := !e.refreshing
	c.mu.Unlock()
	if skip {
		return nil
	}
	keys, err := c.fetch(life, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refreshing = false
	if err != nil {
		c.log.WarnContext(life, "JWKS could not be fetched", "app", id.app, "error", err)
		return err
	}
	e.keys, e.fetched = keys, time.Now()
	return nil
}

func (c *jwksCache) fetch(ctx context.Context, id jwksID) ([]JWTKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id.url, nil)
	if err != nil {
		return nil, errors.New("JWKS URL is not valid")
	}
	body, err := c.asks.fetch(ctx, id.app, req, jwksBytes)
	if err != nil {
		return nil, err
	}
	return parseJWKS(body)
}

// parseJWKS parses a published key set. It skips keys of other kinds and uses, and symmetric keys: a key that everybody can read proves
// nothing.
func parseJWKS(body []byte) ([]JWTKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, errors.New("answer is not a JWK set")
	}
	if len(set.Keys) > jwksKeys {
		return nil, fmt.Errorf("JWK set has %d keys; at most %d are allowed", len(set.Keys), jwksKeys)
	}
	keys := make([]JWTKey, 0, len(set.Keys))
	for _, raw := range set.Keys {
		if k, err := parseJWK(raw); err == nil && k.Algorithm != string(jose.HS256) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func hasKID(keys []JWTKey, kid string) bool {
	if kid == "" {
		return true
	}
	for _, k := range keys {
		if k.ID == kid || k.ID == "" {
			return true
		}
	}
	return false
}
