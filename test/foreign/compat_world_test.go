package foreign

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/test/blackbox"
)

// shards is what production has.
const shards = 128

// world is a Redis, a service on it, and their surroundings.
type world struct {
	*testing.T
	redis  *around
	addr   string           // of the service
	http   string           // address of its probes and metrics; "": it has none
	server *blackbox.Server // nil: it is the former service

	mu  sync.Mutex
	pub *redispub.Publisher
}

// around holds the surroundings of a service.
type around struct {
	seeds  []string
	auth   *authServer
	driver *driverAPI
}

// beginFormer starts the stand-in of the former service.
func beginFormer(t *testing.T, r *around) *world {
	t.Helper()
	addr, _ := startFormer(t, r.seeds, shards, r.auth)
	return newWorld(t, &world{redis: r, addr: addr})
}

// begin starts Godwit in place of the former service.
func begin(t *testing.T, r *around, opts ...blackbox.Option) *world {
	t.Helper()
	web := blackbox.Free(t)
	all := []blackbox.Option{blackbox.Args(serveArgs(r, web)...)}
	s := blackbox.Start(t, append(all, opts...)...)
	return newWorld(t, &world{redis: r, addr: s.GRPC, http: web, server: s})
}

// serveArgs returns the flags with which Godwit replaces the former service.
func serveArgs(r *around, web string) []string {
	urls := make([]string, len(r.seeds))
	for i, addr := range r.seeds {
		urls[i] = "redis://" + addr
	}
	return []string{
		"--compat", "nammayatri", "--redis", strings.Join(urls, ","), "--max-shards", fmt.Sprint(shards),
		"--auth-url", r.auth.URL, "--auth-api-key", authKey, "--driver-api-url", r.driver.URL, "--compat-http-addr", web,
	}
}

func newWorld(t *testing.T, w *world) *world {
	w.T, w.pub = t, redispub.NewPublisher(w.redis.seeds, shards)
	t.Cleanup(w.pub.Close)
	return w
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	return newWorld(t, &world{redis: w.redis, addr: w.addr, http: w.http, server: w.server})
}

// uuid is a new client.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// entry returns an entry in the back ends' form, which expires after an hour.
func entry(id string) *redispub.Entry {
	now := time.Now()
	return &redispub.Entry{
		ID: id, Category: "NEW_RIDE_AVAILABLE", Title: "New ride for you! ☕", Body: "2.1 km away", Show: "SHOW",
		EntityID: "entity of " + id, EntityType: "SearchRequest", Entity: `{"fare":120,"to":"Blåbær"}`,
		CreatedAt: redispub.ISO(now), TTL: redispub.ISO(now.Add(time.Hour)),
	}
}

// wantPayload returns the payload that a client must get for an entry.
func wantPayload(e *redispub.Entry) payload {
	return payload{e.ID, e.Category, e.Title, e.Body, e.Show, e.EntityID, e.EntityType, e.Entity}
}

// publish publishes entries to a client and returns their ids in Redis.
func (w *world) publish(client string, entries ...*redispub.Entry) (ids []string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		id, err := w.pub.Publish(w.Context(), client, e)
		if err != nil {
			w.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// appendTo adds an entry with given fields and id to a client's stream.
func (w *world) appendTo(client, id string, fields []string) string {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	given, err := w.pub.Append(w.Context(), client, id, fields)
	if err != nil {
		w.Fatal(err)
	}
	return given
}

// do runs a command on the Redis server that has a key.
func (w *world) do(key string, args ...string) any {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	answer, err := w.pub.Do(w.Context(), key, args...)
	if err != nil {
		w.Fatal(err)
	}
	return answer
}

// left waits until a client's stream has exactly n entries.
func (w *world) left(client string, n int64) {
	w.Helper()
	key := redispub.Key(client, shards)
	blackbox.Eventually(w, fmt.Sprintf("%d entries in %s", n, key), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if is, err := w.pub.Do(w.Context(), key, "XLEN", key); err != nil || is != n {
			return fmt.Errorf("%v are there, %w", is, err)
		}
		return nil
	})
}

// online connects a client with acknowledgements.
func (w *world) online(client string, md ...string) *app {
	w.Helper()
	return connect(w, w.addr, streamPayload, append([]string{"token", tokenOf(client)}, md...)...)
}

// get reads a page of the service's own HTTP listener.
func (w *world) get(path string) (code int, body string) {
	w.Helper()
	code, body, err := w.tryGet(path)
	if err != nil {
		w.Fatal(err)
	}
	return code, body
}

func (w *world) tryGet(path string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+w.http+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
