package signal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("the store is away")

// flaky is a real store that fails or delays its answers as a test requests.
type flaky struct {
	objectstore.Store
	reads, writes atomic.Bool
	slow          atomic.Int64                  // how long a read is delayed
	touches       atomic.Pointer[chan struct{}] // closed when touches may reach the store; nil: they may at once
	saved         func(v *objectstore.Save)
	mu            sync.Mutex
	held          []func() // delayed calls; if it is nil and holding is false, none are delayed
	holding       bool
}

// hold delays saves until the returned function is called.
func (f *flaky) hold() (release func()) {
	f.mu.Lock()
	f.holding = true
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		held := f.held
		f.held, f.holding = nil, false
		f.mu.Unlock()
		for _, call := range held {
			call()
		}
	}
}

func (f *flaky) Save(v *objectstore.Save) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.saved != nil {
		f.saved(v)
	}
	switch {
	case f.writes.Load():
		go v.Done(errAway)
	case f.holding:
		v := *v
		v.Keys, v.Progress = slices.Clone(v.Keys), slices.Clone(v.Progress) // they are borrowed
		f.held = append(f.held, func() { f.Store.Save(&v) })
	default:
		f.Store.Save(v)
	}
}

func (f *flaky) Load(ctx context.Context, id objectstore.ClientID) (*objectstore.Saved, error) {
	if f.reads.Load() {
		return nil, errAway
	}
	return f.Store.Load(ctx, id)
}

func (f *flaky) Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error) {
	if f.reads.Load() {
		return nil, errAway
	}
	defer func() { time.Sleep(time.Duration(f.slow.Load())) }()
	return f.Store.Get(ctx, app, keys)
}

// world is a service on a real store, with clients that record their frames.
type world struct {
	*testing.T
	path  string
	cfg   signal.Config
	store *flaky
	db    *objectdb.Store
	svc   *signal.Service
	wrap  func(objectstore.Store) objectstore.Store // wraps the store for the service; nil: the store itself
}

// inWorld runs a test in a bubble of its own time.
func inWorld(t *testing.T, cfg signal.Config, test func(w *world)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, path: path, cfg: cfg}
		w.start()
		defer w.stop()
		test(w)
	})
}

func (w *world) start() {
	w.Helper()
	db, err := objectdb.Open(context.Background(), w.path, objectdb.Config{MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	w.db, w.store = db, &flaky{Store: db}
	w.cfg.Store = w.store
	if w.wrap != nil {
		w.cfg.Store = w.wrap(w.store)
	}
	w.svc = signal.New(w.cfg)
}

func (w *world) stop() {
	w.Helper()
	if err := errors.Join(w.svc.Close(), w.db.Close()); err != nil {
		w.Error(err)
	}
}

func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

const app = "app"

func (w *world) put(object string, v object.Version) { w.Helper(); w.putAs(object, putVersion(v)) }

func putVersion(v object.Version) object.Put { return object.Put{Version: v} }

func (w *world) putAs(name string, p object.Put) {
	w.Helper()
	if _, _, err := w.svc.Put(w.Context(), app, object.Key{Group: "north", Object: name}, &p); err != nil {
		w.Fatal(err)
	}
}

// unit is a client in the form the service sees it: the peer of a session.
type unit struct {
	w   *world
	s   session.Part
	who session.Client

	mu     sync.Mutex
	frames []string
	full   bool

	corked  int // Cork without its Uncork
	pending int // frames that wait for it
	writes  int
}

func (u *unit) Format() frame.Format { return frame.JSON }

func (u *unit) Cork() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.corked++
}

func (u *unit) Queued() int { return 0 }

func (u *unit) Uncork() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.corked--; u.corked == 0 {
		u.writes += min(u.pending, 1)
		u.pending = 0
	}
}

func (u *unit) Send(_ frame.ServerKind, head, tail []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.full {
		return false
	}
	u.frames = append(u.frames, string(head)+string(tail))
	if u.corked > 0 {
		u.pending++
	} else {
		u.writes++
	}
	return true
}

// connect connects recipient/device in group north. change may alter the client.
func (w *world) connect(recipient, device string, change ...func(*session.Client)) *unit {
	w.Helper()
	u := &unit{w: w, who: session.Client{App: app, Recipient: recipient, Group: "north", Device: device}}
	for _, c := range change {
		c(&u.who)
	}
	if device != "" {
		u.s = w.svc.Open(w.Context(), u, u.who, true)
	}
	if u.s == nil {
		u.s = w.svc.Open(w.Context(), u, u.who, false)
	}
	u.s.Join()
	u.s.Start()
	return u
}

// send passes a client frame to the service.
func (u *unit) send(format string, args ...any) {
	u.w.Helper()
	var f frame.Client
	if err := frame.DecodeJSON(fmt.Appendf(nil, format, args...), &f); err != nil {
		u.w.Fatal(err)
	}
	if f.Kind == frame.KindObjectAck {
		u.s.Frame(&f)
		return
	}
	u.s.Frame(&f)
}

func (u *unit) register(objects ...string) {
	u.w.Helper()
	u.send(`{"register":{"objects":["%s"]}}`, strings.Join(objects, `","`))
}

func (u *unit) ack(object string, v int) {
	u.w.Helper()
	u.send(`{"object_ack":{"object":%q,"version":"%d"}}`, object, v)
}

func (u *unit) block(full bool) {
	u.mu.Lock()
	u.full = full
	u.mu.Unlock()
	if !full {
		u.s.Drained()
	}
}

func (u *unit) close() { u.s.Closed() }

// told returns the frames since the last call in a short form: "config 7", "config ?7", "registered a b", "failed forbidden a", "failed
// unavailable* a" if the failure is temporary.
func (u *unit) told() []string {
	u.w.Helper()
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, text := range u.frames {
		var f struct {
			Object *struct {
				Group, Object, Version string
				Unknown                bool
			}
			Registered *struct {
				Objects []string
				Digest  string
			}
			Failed *struct {
				Objects   []string
				Code      string
				Transient bool
			} `json:"registration_failed"`
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			u.w.Fatalf("%s: %v", text, err)
		}
		switch {
		case f.Object != nil:
			s := f.Object.Object + " "
			if f.Object.Group != "north" {
				s = f.Object.Group + "/" + s
			}
			if f.Object.Unknown {
				s += "?"
			}
			out = append(out, s+f.Object.Version)
		case f.Registered != nil:
			out = append(out, strings.Join(append([]string{"registered"}, f.Registered.Objects...), " "))
			if len(f.Registered.Digest) != object.DigestLen {
				u.w.Errorf("%s has no digest", text)
			}
		case f.Failed != nil:
			code := f.Failed.Code
			if f.Failed.Transient {
				code += "*"
			}
			out = append(out, strings.Join(append([]string{"failed", code}, f.Failed.Objects...), " "))
		default:
			u.w.Fatalf("unexpected frame %s", text)
		}
	}
	u.frames = nil
	return out
}

// want compares the frames since the last call. Frames of different objects may arrive in any order.
func (u *unit) want(frames ...string) {
	u.w.Helper()
	got := u.told()
	sorted, wanted := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(frames))
	if !slices.Equal(sorted, wanted) {
		u.w.Fatalf("%s was told %q, want %q", u.who.Recipient, got, frames)
	}
}

// wantDigest compares the service's digest with the digest of these objects.
func (u *unit) wantDigest(objects ...string) {
	u.w.Helper()
	synctest.Wait()
	var want object.Digest
	for _, o := range objects {
		want += object.Key{Group: "north", Object: o}.Hash()
	}
	if digest, n := u.s.(session.Digester).Digest(); digest != want.String() || n != len(objects) {
		u.w.Fatalf("digest of %s is %s of %d objects, want %s of %d", u.who.Recipient, digest, n, want, len(objects))
	}
}

// flushed waits until acknowledgements are written.
func (w *world) flushed() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}
