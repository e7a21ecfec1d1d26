package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

// The world's names. Apps have the same recipients, groups and objects.
const (
	group      = "region-1"
	limitedApp = "limited" // an app whose clients may only have objects named o*
	objects    = 20
	retain     = 2 * time.Minute // registrations of clients that stay away longer are dropped; returning clients register again
)

var apps = []string{"animal.observer", "shop", limitedApp}

// world is a server with its clients, and the true state of all objects.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	weather *weather
	faults  *faults
	units   []*unit
	judge   *judge
	running sync.WaitGroup // units, publishes
	stop    chan struct{}

	mu       sync.Mutex
	backing  backing
	server   *server // nil: down
	lives    int
	versions map[objectName]object.Version
}

// backing stores a server's state: a simulated disk, or a real one.
type backing interface {
	open() (store objectstore.Store, kill func(), err error)
	wipe()
}

// server is one life of the server.
type server struct {
	hub   *session.Hub
	svc   *signal.Service
	kill  func() // of the store
	links []*link
}

// nothing is a mailbox without notifications.
type nothing struct{}

func (nothing) Heads(_ context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	return make([]mailbox.Head, len(of)), nil
}

func (nothing) Pending(_ context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	return make([]mailbox.PendingResult, len(qs)), nil
}
func (nothing) Items(context.Context, []mailbox.Ref) ([]*mailbox.Item, error) { return nil, nil }
func (nothing) Lookup(context.Context, string, string, string) ([]mailbox.Record, error) {
	return nil, nil
}
func (nothing) SettleLater([]*mailbox.Settle)            {}
func (nothing) Mark([]mailbox.Mark)                      {}
func (nothing) Delivered([]mailbox.Mark)                 {}
func (nothing) Seen([]mailbox.Seen)                      {}
func (nothing) RouteTo(mailbox.Router, mailbox.Presence) {}

// believer accepts every client's claims; clients of one app may not have every object.
type believer struct{}

func (b believer) Known(c access.Claim) (access.Client, error) {
	return b.Client(context.Background(), c)
}

func (believer) Client(_ context.Context, c access.Claim) (access.Client, error) {
	v := access.Client{App: c.App, Recipient: c.Recipient, Group: c.Group, Device: c.Device}
	if c.App == limitedApp {
		v.Objects = []string{"o*"}
	}
	return v, nil
}

func (w *world) start() error {
	store, kill, err := w.backing.open()
	if err != nil {
		return err
	}
	svc := signal.New(signal.Config{Store: store, Retain: retain, Workers: 2, BatchMost: 100 * time.Millisecond})
	hub := session.NewHub(session.Config{
		Store: nothing{}, Mailbox: nothing{}, Verifier: believer{}, Capabilities: []session.Capability{svc}, Log: slog.New(slog.DiscardHandler), Now: mailbox.Clock(), Reread: time.Hour,
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.lives = &server{hub: hub, svc: svc, kill: kill}, w.lives+1
	return nil
}

// kill ends the server like kill -9: data not on disk is lost, and no client is informed.
func (w *world) kill() {
	w.mu.Lock()
	s := w.server
	w.server = nil
	w.mu.Unlock()
	if s == nil {
		return
	}
	for _, l := range s.links {
		l.orphan()
	}
	s.kill()
	_ = s.hub.Close()
	_ = s.svc.Close()
}

func (w *world) dial(*unit) (wire, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil {
		return nil, false
	}
	l := connect(w.server.hub, w.weather, &w.running)
	w.server.links = append(w.server.links, l)
	return l, true
}

func payloadOf(app, name string, v object.Version) string {
	return fmt.Sprintf("%s %s %d", app, name, v)
}

// name picks a random object, a few of them often.
func (w *world) name(app string) string {
	if app == limitedApp && w.rand.IntN(10) == 0 {
		return "x0"
	}
	return fmt.Sprintf("o%d", min(w.rand.IntN(objects), w.rand.IntN(objects)))
}

func (w *world) unit() *unit { return w.units[w.rand.IntN(len(w.units))] }

// publish changes an object and does not wait for it. A back end's versions only grow, whatever the result of the previous publish.
func (w *world) publish() {
	app := apps[w.rand.IntN(len(apps))]
	name := w.name(app)
	k := objectName{app, object.Key{Group: group, Object: name}}
	w.versions[k]++
	p := object.Put{Version: w.versions[k], Payload: []byte(payloadOf(app, name, w.versions[k])), ContentType: "text/plain"}
	var from *unit
	switch w.rand.IntN(10) {
	case 0:
		p = object.Put{Unknown: true, Version: w.versions[k]}
	case 1, 2, 3:
		from = w.unit()
		if from.app != app {
			from = nil
			break
		}
		p.Origin = object.Origin{Recipient: from.recipient, Device: from.device}
		if from.device == "" {
			p.Origin, from = object.Origin{}, nil // another session of the recipient must not miss this version
		}
	}
	w.mu.Lock()
	s := w.server
	w.mu.Unlock()
	if s == nil {
		return
	}
	var during wire
	if from != nil {
		during = from.connection()
	}
	w.running.Go(func() {
		_, changed, err := s.svc.Put(context.Background(), app, k.key, &p)
		if err == nil && changed && from != nil {
			from.made(name, p.Version, during)
		}
	})
}

// step does one thing.
func (w *world) step() {
	switch n := w.rand.IntN(1000); {
	case n < 400:
		for range 1 + w.rand.IntN(3) {
			w.publish()
		}
	case n < 550:
		u := w.unit()
		u.set(w.name(u.app), true)
	case n < 670:
		u := w.unit()
		u.set(w.name(u.app), false)
	case n < 800:
		w.unit().cut(false)
	case n < 840:
		w.unit().cut(true)
	case n < 900:
		w.unit().cut(false) // and back
	case n < 930:
		w.unit().forget()
	case n < 950:
		w.change()
	case n < 970:
		w.faults.set(w.rand.IntN(4) == 0, w.rand.IntN(4) == 0, time.Duration(w.rand.IntN(300))*time.Millisecond)
	case n < 974:
		w.mu.Lock()
		s := w.server
		w.mu.Unlock()
		if s != nil {
			_ = s.svc.Collect(context.Background()) // the store may be away
		}
	case n < 980:
		w.erase()
	case n < 988:
		w.restart(false)
	case n < 990:
		w.restart(true)
	default:
		time.Sleep(time.Duration(w.rand.IntN(30)) * time.Second)
	}
	time.Sleep(time.Duration(w.rand.IntN(100)) * time.Millisecond)
}

// change changes the weather.
func (w *world) change() {
	x := w.weather
	x.mu.Lock()
	defer x.mu.Unlock()
	x.delay = time.Duration(w.rand.IntN(200)) * time.Millisecond
	x.duplicate, x.reorder, x.swallow, x.halfOpen = w.rand.Float64()/5, w.rand.Float64()/5, w.rand.Float64()/10, w.rand.Float64()/2
	x.room = 3 + w.rand.IntN(50)
}

// calm ends all faults of links and stores.
func (w *world) calm() {
	x := w.weather
	x.mu.Lock()
	x.delay, x.duplicate, x.reorder, x.swallow, x.halfOpen, x.room = 5*time.Millisecond, 0, 0, 0, 0, 1000
	x.mu.Unlock()
	w.faults.set(false, false, 0)
}

func (w *world) erase() {
	u := w.unit()
	w.mu.Lock()
	s := w.server
	w.mu.Unlock()
	if s == nil {
		return
	}
	_ = s.svc.Erase(context.Background(), u.app, u.recipient)                      // may fail while the store is unreachable; connected clients must reconnect anyway
	_, _, _ = s.hub.Disconnect(context.Background(), u.app, u.recipient, "erased") // cannot fail with a single node
}

// restart kills the server and starts it again after a while; wipe deletes its state before.
func (w *world) restart(wipe bool) {
	w.kill()
	if wipe {
		w.backing.wipe()
	}
	time.Sleep(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
	if err := w.start(); err != nil {
		w.t.Fatal(err)
	}
}

// truth returns the state of an object in the store.
func (w *world) truth(app, name string) object.State {
	st, _, err := w.server.svc.Get(context.Background(), app, object.Key{Group: group, Object: name})
	if err != nil {
		w.t.Error(err)
	}
	return st
}

// settle makes changes once more under bad conditions, ends all faults and waits longer than any redelivery takes. Connections stay open: a
// new one would hide what this one has missed.
func (w *world) settle() {
	for _, u := range w.units {
		u.back()
	}
	w.faults.set(false, false, 300*time.Millisecond)
	w.change()
	time.Sleep(10 * time.Second)
	for range 2 * objects {
		w.publish()
	}
	w.faults.set(w.rand.IntN(2) == 0, w.rand.IntN(2) == 0, 300*time.Millisecond)
	for range objects {
		u := w.unit()
		u.set(w.name(u.app), w.rand.IntN(3) > 0)
	}
	time.Sleep(2 * time.Second)
	w.calm()
	for range objects / 2 {
		w.publish()
	}
	time.Sleep(8 * time.Minute)
	before := w.judge.asked()
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	if again := w.judge.asked() - before; again > 0 {
		w.judge.complain("%d times a set was sent whole although nothing happened any more", again)
	}
}

// verdict compares all units with the truth.
func (w *world) verdict() {
	problems := w.judge.heard()
	for _, u := range w.units {
		problems = append(problems, u.check(w.truth)...)
		problems = append(problems, w.registered(u)...)
	}
	if len(problems) > 0 {
		w.t.Errorf("%d problems:\n%s", len(problems), strings.Join(problems[:min(10, len(problems))], "\n"))
	}
}

// registered compares a unit's wishes with the server's registration.
func (w *world) registered(u *unit) []string {
	if u.device == "" {
		return nil // its recipient has several sessions
	}
	rs, err := w.server.svc.OfRecipient(context.Background(), u.app, u.recipient)
	if err != nil {
		return []string{err.Error()}
	}
	var have []string
	for _, r := range rs {
		if r.Device == u.device && r.Group == group {
			have = append(have, r.Key.Object)
		}
	}
	u.mu.Lock()
	want := u.wanted()
	u.mu.Unlock()
	if slices.Sort(have); !slices.Equal(have, want) {
		return []string{fmt.Sprintf("%s is registered for %v, wants %v", u, have, want)}
	}
	return nil
}
