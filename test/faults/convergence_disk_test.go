package faults

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/storetest"
)

// objectName identifies an object across apps.
type objectName struct {
	app string
	key object.Key
}

// disk is the part of a store that survives its process: the contents.
type disk struct {
	mu      sync.Mutex
	objects map[objectName]object.State
	clients map[objectstore.ClientID]*objectstore.Saved
}

func newDisk() *disk {
	return &disk{objects: map[objectName]object.State{}, clients: map[objectstore.ClientID]*objectstore.Saved{}}
}

// faults are the current misbehavior of a store.
type faults struct {
	mu            sync.Mutex
	rand          *rand.Rand
	reads, writes bool
	lag           time.Duration // most that a write takes
}

var errFault = errors.New("the disk is away")

func (f *faults) set(reads, writes bool, lag time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads, f.writes, f.lag = reads, writes, lag
}

func (f *faults) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads {
		return errFault
	}
	return nil
}

// write returns how long a write takes, and its error.
func (f *faults) write() (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lag time.Duration
	if f.lag > 0 {
		lag = time.Duration(f.rand.Int64N(int64(f.lag)))
	}
	if f.writes {
		return lag, errFault
	}
	return lag, nil
}

// memory is an objectstore.Store on a disk. Like the real one it makes one write after the other; writes not made when it dies are lost.
type memory struct {
	d      *disk
	obs    atomic.Pointer[objectstore.Observer]
	faults *faults

	mu    sync.Mutex
	more  *sync.Cond
	queue []write
	dead  bool
	done  chan struct{}
}

type write struct {
	apply func()
	done  func(error)
}

var _ objectstore.Store = (*memory)(nil)

func (m *memory) Observe(obs objectstore.Observer) { m.obs.Store(&obs) }

func openMemory(d *disk, f *faults) *memory {
	m := &memory{d: d, faults: f, done: make(chan struct{})}
	m.more = sync.NewCond(&m.mu)
	go m.run()
	return m
}

func (m *memory) submit(w write) {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		w.done(mailbox.ErrClosed)
		return
	}
	m.queue = append(m.queue, w)
	m.mu.Unlock()
	m.more.Signal()
}

func (m *memory) run() {
	defer close(m.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for len(m.queue) == 0 && !m.dead {
			m.more.Wait()
		}
		queue := m.queue
		m.queue = nil
		dead := m.dead
		m.mu.Unlock()
		for _, w := range queue {
			m.write(w)
		}
		m.mu.Lock()
		if dead && len(m.queue) == 0 {
			return
		}
	}
}

func (m *memory) write(w write) {
	lag, err := m.faults.write()
	if lag > 0 {
		time.Sleep(lag)
	}
	if m.isDead() {
		err = mailbox.ErrClosed
	}
	if err == nil {
		w.apply()
	}
	w.done(err)
}

func (m *memory) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// kill ends the store like a killed process: data not on disk is lost.
func (m *memory) kill() {
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.more.Signal()
}

func (m *memory) wait() { <-m.done }

func (m *memory) Put(_ context.Context, batch []*objectstore.Put) error {
	done := make(chan error, 1)
	m.submit(write{apply: func() { m.put(batch) }, done: func(err error) { done <- err }})
	return <-done
}

func (m *memory) put(batch []*objectstore.Put) {
	var changes []objectstore.Change
	m.d.mu.Lock()
	for _, p := range batch {
		n := objectName{p.App, p.Key}
		old := m.d.objects[n]
		if p.State, p.Changed, p.Err = old.Apply(&p.Put, p.At); p.Err == nil && p.Changed {
			m.d.objects[n] = p.State
			st := p.State
			changes = append(changes, objectstore.Change{App: p.App, Key: p.Key, State: &st})
		}
	}
	m.d.mu.Unlock()
	if len(changes) > 0 {
		(*m.obs.Load()).Changed(changes)
	}
}

func (m *memory) Get(_ context.Context, app string, keys []object.Key) ([]object.State, error) {
	if err := m.faults.read(); err != nil {
		return nil, err
	}
	m.d.mu.Lock()
	out := make([]object.State, len(keys))
	for i, k := range keys {
		out[i] = m.d.objects[objectName{app, k}]
	}
	m.d.mu.Unlock()
	if lag, _ := m.faults.write(); lag > 0 {
		time.Sleep(lag) // the result may be outdated by the time it is used
	}
	return out, nil
}

func (m *memory) List(_ context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for n, st := range m.d.objects {
		if n.app == app && n.key.Group == group && strings.HasPrefix(n.key.Object, prefix) && n.key.Object > after {
			items = append(items, objectstore.Item{Key: n.key, State: st})
		}
	}
	slices.SortFunc(items, func(a, b objectstore.Item) int { return a.Key.Compare(b.Key) })
	return items[:min(limit, len(items))], nil
}

func (m *memory) Groups(_ context.Context, app, after string, limit int) (groups []string, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for n := range m.d.objects {
		if n.app == app && n.key.Group > after && !slices.Contains(groups, n.key.Group) {
			groups = append(groups, n.key.Group)
		}
	}
	slices.Sort(groups)
	return groups[:min(limit, len(groups))], nil
}

func (m *memory) Load(_ context.Context, id objectstore.ClientID) (*objectstore.Saved, error) {
	if err := m.faults.read(); err != nil {
		return nil, err
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return clone(m.d.clients[id]), nil
}

func clone(v *objectstore.Saved) *objectstore.Saved {
	if v == nil {
		return nil
	}
	c := *v
	c.Keys, c.Progress = slices.Clone(v.Keys), slices.Clone(v.Progress)
	return &c
}

func (m *memory) Save(s *objectstore.Save) {
	v := &objectstore.Saved{ID: s.ID, SeenAt: s.SeenAt, Keys: slices.Clone(s.Keys), Progress: known(s.Progress)}
	m.submit(write{done: s.Done, apply: func() {
		m.d.mu.Lock()
		defer m.d.mu.Unlock()
		if old := m.d.clients[v.ID]; old != nil && old.SeenAt.After(v.SeenAt) {
			v.SeenAt = old.SeenAt
		}
		if len(v.Keys) == 0 {
			delete(m.d.clients, v.ID)
			return
		}
		m.d.clients[v.ID] = v
	}})
}

// known drops the entries without information.
func known(ps []objectstore.Progress) []objectstore.Progress {
	return slices.DeleteFunc(slices.Clone(ps), func(p objectstore.Progress) bool { return p.Acked == 0 && p.Sent == 0 })
}

func (m *memory) Touch(batch []objectstore.Touch, done func(error)) {
	m.submit(write{done: done, apply: func() {
		m.d.mu.Lock()
		defer m.d.mu.Unlock()
		for _, t := range batch {
			v := m.d.clients[t.ID]
			if v == nil {
				continue
			}
			if t.SeenAt.After(v.SeenAt) {
				v.SeenAt = t.SeenAt
			}
			if t.Progress != nil {
				v.Progress = known(t.Progress)
			}
		}
	}})
}

func (m *memory) Watchers(_ context.Context, app string, k object.Key, after int64, look int) (found []objectstore.Watcher, next int64, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(m.d.clients), func(a, b objectstore.ClientID) int {
		return strings.Compare(a.App+"\n"+a.Recipient+"\n"+a.Group+"\n"+a.Device, b.App+"\n"+b.Recipient+"\n"+b.Group+"\n"+b.Device)
	})
	ids = ids[min(int(after), len(ids)):]
	if len(ids) > look {
		ids, next = ids[:look], after+int64(look)
	}
	for _, id := range ids {
		v := m.d.clients[id]
		if id.App != app || !slices.Contains(v.Keys, k) {
			continue
		}
		w := objectstore.Watcher{ID: id, SeenAt: v.SeenAt}
		for _, p := range v.Progress {
			if p.Object == k.Hash() {
				w.Acked, w.Sent = p.Acked, p.Sent
			}
		}
		found = append(found, w)
	}
	return found, next, nil
}

func (m *memory) Clients(_ context.Context, app, recipient string) (found []objectstore.Saved, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for id, v := range m.d.clients {
		if id.App == app && id.Recipient == recipient {
			found = append(found, *clone(v))
		}
	}
	slices.SortFunc(found, func(a, b objectstore.Saved) int {
		return strings.Compare(a.ID.Group+"\n"+a.ID.Device, b.ID.Group+"\n"+b.ID.Device)
	})
	return found, nil
}

func (m *memory) Away(_ context.Context, before time.Time, limit int) (ids []objectstore.ClientID, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for id, v := range m.d.clients {
		if v.SeenAt.Before(before) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b objectstore.ClientID) int { return m.d.clients[a].SeenAt.Compare(m.d.clients[b].SeenAt) })
	return ids[:min(limit, len(ids))], nil
}

// alone runs a write and waits for it.
func (m *memory) alone(apply func()) error {
	done := make(chan error, 1)
	m.submit(write{done: func(err error) { done <- err }, apply: func() {
		m.d.mu.Lock()
		defer m.d.mu.Unlock()
		apply()
	}})
	return <-done
}

func (m *memory) Drop(_ context.Context, ids []objectstore.ClientID, before time.Time) (n int, err error) {
	err = m.alone(func() {
		for _, id := range ids {
			if v := m.d.clients[id]; v != nil && v.SeenAt.Before(before) {
				delete(m.d.clients, id)
				n++
			}
		}
	})
	return n, err
}

func (m *memory) Erase(_ context.Context, app, recipient string) error {
	return m.alone(func() {
		maps.DeleteFunc(m.d.clients, func(id objectstore.ClientID, _ *objectstore.Saved) bool {
			return id.App == app && id.Recipient == recipient
		})
	})
}

func (m *memory) EraseApp(_ context.Context, app string) error {
	return m.alone(func() {
		maps.DeleteFunc(m.d.clients, func(id objectstore.ClientID, _ *objectstore.Saved) bool { return id.App == app })
		maps.DeleteFunc(m.d.objects, func(n objectName, _ object.State) bool { return n.app == app })
	})
}

func (m *memory) Stats(context.Context) (objects, clients int64, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return int64(len(m.d.objects)), int64(len(m.d.clients)), nil
}

// The simulated store must pass the real one's conformance suite.
func TestSimulatedStoreConforms(t *testing.T) {
	storetest.RunObjects(t, func(t *testing.T) storetest.OpenedObjects {
		d := newDisk()
		m := openMemory(d, &faults{})
		t.Cleanup(func() { m.kill(); m.wait() })
		return storetest.OpenedObjects{Store: m, Reopen: func() objectstore.Store {
			m.kill()
			m.wait()
			m = openMemory(d, &faults{})
			return m
		}}
	})
}
