package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// OpenedObjects is an object store under test.
type OpenedObjects struct {
	Store objectstore.Store
	// Reopen closes the store and opens it again.
	Reopen func() objectstore.Store
	// Crash opens the files as they would be if the machine had stopped now, while the store is still open. The test's cleanup closes the
	// returned store. Nil: the store cannot be tested like this.
	Crash func() objectstore.Store
}

// OpenObjectsFunc opens an empty object store for one test. The test's cleanup closes it.
type OpenObjectsFunc func(t *testing.T) OpenedObjects

// RunObjectsCrash is the part of the suite that checks the state after a crash, for stores whose crash takes long.
func RunObjectsCrash(t *testing.T, open OpenObjectsFunc) {
	t.Helper()
	e := &objectEnv{T: t, now: time.Date(2031, 5, 4, 3, 2, 1, 0, time.UTC)}
	e.o = open(t)
	e.use(e.o.Store)
	crashObjects(e, 1)
}

// RunObjects is the conformance suite of object stores.
func RunObjects(t *testing.T, open OpenObjectsFunc) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(e *objectEnv)
	}{
		{"WhatWasPutIsRead", objectsPut},
		{"VersionsOnlyGrow", objectsGrow},
		{"UnknownKeepsTheFloor", objectsUnknown},
		{"BadInputFailsAlone", objectsBadInput},
		{"ListIsByNameAndPaged", objectsList},
		{"GroupsAreByNameAndPaged", objectsGroups},
		{"ObserverLearnsOfEachChangeInOrder", objectsObserved},
		{"RegistrationsAreReplacedWhole", clientsSaved},
		{"GroupsAndDevicesAreApart", clientsApart},
		{"TouchChangesProgressAndTime", clientsTouched},
		{"WatchersArePaged", clientsWatchers},
		{"ClientsLongAwayAreDropped", clientsAway},
		{"ErasedRecipientIsGone", clientsErased},
		{"AnErasedAppLeavesNothing", erasedAppLeavesNoObject},
		{"AnotherAppsDataIsNeverSeen", objectsByApp},
		{"WhatWasAnsweredSurvivesACrash", objectsCrash},
		{"PutsOfManyCallersTakeVersionsInTurn", objectsConcurrent},
		{"EndedStoreRefuses", objectsClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := &objectEnv{T: t, now: time.Date(2031, 5, 4, 3, 2, 1, 0, time.UTC)}
			e.o = open(t)
			e.use(e.o.Store)
			c.run(e)
		})
	}
}

// objectEnv is one test's store, with the suite's helpers. It is also the store's observer.
type objectEnv struct {
	*testing.T
	o   OpenedObjects
	s   objectstore.Store
	now time.Time

	mu      sync.Mutex
	changes []objectstore.Change
}

func (e *objectEnv) use(s objectstore.Store) {
	e.s = s
	s.Observe(e)
}

// Changed implements objectstore.Observer. It copies the batch, since the store reuses the slice.
func (e *objectEnv) Changed(batch []objectstore.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, batch...)
}

func key(group, name string) object.Key { return object.Key{Group: group, Object: name} }

func (e *objectEnv) put(app string, k object.Key, p object.Put) *objectstore.Put {
	e.Helper()
	v := &objectstore.Put{App: app, Key: k, Put: p, At: e.now}
	if err := e.s.Put(e.Context(), []*objectstore.Put{v}); err != nil {
		e.Fatalf("put %s: %v", k, err)
	}
	return v
}

func (e *objectEnv) get(app string, k object.Key) object.State {
	e.Helper()
	states, err := e.s.Get(e.Context(), app, []object.Key{k})
	if err != nil || len(states) != 1 {
		e.Fatalf("get %s: %d states, %v", k, len(states), err)
	}
	return states[0]
}

func (e *objectEnv) wantState(app string, k object.Key, want object.State) {
	e.Helper()
	if got := e.get(app, k); !reflect.DeepEqual(got, want) {
		e.Fatalf("%s of %s is %+v, want %+v", k, app, got, want)
	}
}

// both runs a check on the open store, and again after reopening it.
func (e *objectEnv) both(check func()) {
	e.Helper()
	check()
	e.use(e.o.Reopen())
	check()
}

func objectsPut(e *objectEnv) {
	a, b := key("north", "config"), key("north", "fw.camera")
	src := object.Origin{Recipient: "unit-1", Device: "main"}
	v := e.put(App, a, object.Put{Version: 7, Payload: []byte(`{"fps":25}`), ContentType: "application/json", Origin: src})
	want := object.State{Version: 7, Known: true, Payload: []byte(`{"fps":25}`), ContentType: "application/json", Origin: src, UpdatedAt: e.now}
	if !v.Changed || v.Err != nil || !reflect.DeepEqual(v.State, want) {
		e.Fatalf("put answered %+v, %v, %v", v.State, v.Changed, v.Err)
	}
	e.now = e.now.Add(time.Second)
	if v := e.put(App, b, object.Put{}); v.State.Version != 1 || !v.State.Known {
		e.Fatalf("the first version the server gave is %+v", v.State)
	}
	e.both(func() {
		e.wantState(App, a, want)
		e.wantState(App, b, object.State{Version: 1, Known: true, UpdatedAt: e.now})
		e.wantState(App, key("south", "config"), object.State{})
		states, err := e.s.Get(e.Context(), App, []object.Key{b, key("north", "never"), a})
		if err != nil || len(states) != 3 || states[0].Version != 1 || !states[1].UpdatedAt.IsZero() || states[2].Version != 7 {
			e.Fatalf("three at once: %+v, %v", states, err)
		}
	})
}

func objectsGrow(e *objectEnv) {
	k := key("north", "config")
	e.put(App, k, object.Put{Version: 7, Payload: []byte("seven"), ContentType: "text/plain"})
	want := e.get(App, k)
	for _, version := range []object.Version{7, 6, 1} {
		v := e.put(App, k, object.Put{Version: version, Payload: []byte("other")})
		if v.Changed || v.Err != nil || !reflect.DeepEqual(v.State, want) {
			e.Fatalf("version %d after 7: %+v, changed %v, %v", version, v.State, v.Changed, v.Err)
		}
	}
	e.both(func() { e.wantState(App, k, want) })
	for i, p := range []object.Put{{}, {Version: 20}, {}} {
		if v, want := e.put(App, k, p), []object.Version{8, 20, 21}[i]; v.State.Version != want || !v.Changed || v.State.Payload != nil {
			e.Fatalf("put %d: %+v, want version %d", i, v.State, want)
		}
	}
}

func objectsUnknown(e *objectEnv) {
	k := key("north", "config")
	e.put(App, k, object.Put{Version: 7, Payload: []byte("seven")})
	if v := e.put(App, k, object.Put{Unknown: true}); !v.Changed || v.State.Known || v.State.Version != 7 || v.State.Payload != nil {
		e.Fatalf("withdrawn: %+v", v.State)
	}
	e.both(func() { e.wantState(App, k, object.State{Version: 7, UpdatedAt: e.now}) })
	if v := e.put(App, k, object.Put{Unknown: true, Version: 3}); v.Changed {
		e.Fatalf("unknown again: %+v", v.State)
	}
	if v := e.put(App, k, object.Put{Version: 7}); v.Changed || v.State.Known {
		e.Fatalf("a version at the floor: %+v", v.State)
	}
	if v := e.put(App, k, object.Put{}); !v.Changed || v.State.Version != 8 || !v.State.Known {
		e.Fatalf("a version above the floor: %+v", v.State)
	}
}

func objectsBadInput(e *objectEnv) {
	k := key("north", "last")
	e.put(App, k, object.Put{Version: object.MaxVersion})
	batch := []*objectstore.Put{
		{App: App, Key: key("north", "a"), At: e.now},
		{App: App, Key: k, At: e.now}, // there is no next one
		{App: App, Key: key("north", "a"), At: e.now},
	}
	if err := e.s.Put(e.Context(), batch); err != nil {
		e.Fatal(err)
	}
	if batch[0].Err != nil || batch[1].Err == nil || batch[1].Changed || batch[2].State.Version != 2 {
		e.Fatalf("results %+v, %+v, %+v", batch[0], batch[1], batch[2])
	}
	e.both(func() { e.wantState(App, key("north", "a"), object.State{Version: 2, Known: true, UpdatedAt: e.now}) })
}

func objectsGroups(e *objectEnv) {
	for _, group := range []string{"south", "north", "a.b", "B", "north-2"} {
		for _, name := range []string{"x", "y", "z"} {
			e.put(App, key(group, name), object.Put{})
		}
	}
	e.put("other", key("theirs", "x"), object.Put{})
	e.both(func() {
		for _, c := range []struct {
			after string
			limit int
			want  []string
		}{
			{"", 100, []string{"B", "a.b", "north", "north-2", "south"}},
			{"", 2, []string{"B", "a.b"}},
			{"a.b", 2, []string{"north", "north-2"}},
			{"north-2", 2, []string{"south"}},
			{"south", 2, nil},
		} {
			got, err := e.s.Groups(e.Context(), App, c.after, c.limit)
			if err != nil || !slices.Equal(got, c.want) {
				e.Fatalf("groups after %q, %d of them: %v, %v; want %v", c.after, c.limit, got, err, c.want)
			}
		}
	})
}

func objectsList(e *objectEnv) {
	for _, n := range []string{"b", "a.2", "a.1", "a", "a-", "B", "ab", "~"} {
		if n != "~" {
			e.put(App, key("north", n), object.Put{})
		}
	}
	e.put(App, key("south", "a.9"), object.Put{})
	list := func(prefix, after string, limit int) (names []string) {
		e.Helper()
		items, err := e.s.List(e.Context(), App, "north", prefix, after, limit)
		if err != nil {
			e.Fatal(err)
		}
		for _, it := range items {
			if it.Key.Group != "north" || !it.Known || it.Version != 1 {
				e.Fatalf("item %+v", it)
			}
			names = append(names, it.Key.Object)
		}
		return names
	}
	e.both(func() {
		for _, c := range []struct {
			prefix, after string
			limit         int
			want          []string
		}{
			{"", "", 100, []string{"B", "a", "a-", "a.1", "a.2", "ab", "b"}},
			{"a.", "", 100, []string{"a.1", "a.2"}},
			{"a", "", 2, []string{"a", "a-"}},
			{"a", "a-", 2, []string{"a.1", "a.2"}},
			{"a", "a.2", 2, []string{"ab"}},
			{"c", "", 2, nil},
		} {
			if got := list(c.prefix, c.after, c.limit); !slices.Equal(got, c.want) {
				e.Fatalf("%q after %q: %v, want %v", c.prefix, c.after, got, c.want)
			}
		}
	})
}

func objectsObserved(e *objectEnv) {
	k := key("north", "config")
	for _, p := range []object.Put{{Version: 3, Payload: []byte("x")}, {Version: 2}, {Unknown: true}, {}} {
		e.put(App, k, p)
		e.mu.Lock()
		last := e.changes[len(e.changes)-1]
		e.mu.Unlock()
		if got := e.get(App, k); !reflect.DeepEqual(*last.State, got) || last.App != App || last.Key != k {
			e.Fatalf("the observer was told %+v %s, want %+v before the put returned", last.Key, last.State.Version, got)
		}
	}
	if len(e.changes) != 3 {
		e.Fatalf("%d changes were observed, want 3: a put that changed nothing is none", len(e.changes))
	}
	for i := 1; i < len(e.changes); i++ {
		if !e.changes[i].State.Newer(e.changes[i-1].State) {
			e.Fatalf("change %d is not newer", i)
		}
	}
}

// objectsByApp uses the same names for everything in two apps.
func objectsByApp(e *objectEnv) {
	k := key("north", "config")
	apps := []string{App, "other"}
	for i, app := range apps {
		e.put(app, k, object.Put{Version: object.Version(10 + i), Payload: []byte(app)})
		e.save(objectstore.Save{
			ID: objectstore.ClientID{App: app, Recipient: "unit-1", Device: "d"}, Keys: []object.Key{k},
			Progress: []objectstore.Progress{{Object: k.Hash(), Acked: object.Version(i + 1), Sent: object.Version(i + 1)}},
		})
	}
	e.put("other", key("north", "secret"), object.Put{})
	e.put("other", key("secret", "x"), object.Put{})
	e.save(objectstore.Save{ID: objectstore.ClientID{App: "other", Recipient: "unit-2", Device: "d"}, Keys: []object.Key{k}})
	e.both(func() {
		for i, app := range apps {
			if st := e.get(app, k); st.Version != object.Version(10+i) || string(st.Payload) != app {
				e.Fatalf("%s reads %+v", app, st)
			}
		}
		e.wantState(App, key("north", "secret"), object.State{})
		if items, err := e.s.List(e.Context(), App, "north", "", "", 10); err != nil || len(items) != 1 {
			e.Fatalf("list: %+v, %v", items, err)
		}
		if items, err := e.s.List(e.Context(), App, "secret", "", "", 10); err != nil || len(items) != 0 {
			e.Fatalf("list: %+v, %v", items, err)
		}
		found, _, err := e.s.Watchers(e.Context(), App, k, 0, 100)
		if err != nil || len(found) != 1 || found[0].ID.App != App || found[0].Acked != 1 {
			e.Fatalf("watchers: %+v, %v", found, err)
		}
		if v, err := e.s.Clients(e.Context(), App, "unit-1"); err != nil || len(v) != 1 || v[0].ID.App != App {
			e.Fatalf("clients: %+v, %v", v, err)
		}
		if v := e.load(objectstore.ClientID{App: App, Recipient: "unit-2", Device: "d"}); v != nil {
			e.Fatalf("another app's client: %+v", v)
		}
	})
	for _, c := range e.changes {
		if c.App == App && c.Key != k {
			e.Fatalf("change %+v under the wrong app", c)
		}
	}
	if err := e.s.Erase(e.Context(), App, "unit-1"); err != nil {
		e.Fatal(err)
	}
	if n, err := e.s.Drop(e.Context(), []objectstore.ClientID{{App: App, Recipient: "unit-2", Device: "d"}}, e.now.Add(time.Hour)); err != nil || n != 0 {
		e.Fatalf("dropped %d, %v", n, err)
	}
	e.both(func() {
		for _, r := range []string{"unit-1", "unit-2"} {
			if e.load(objectstore.ClientID{App: "other", Recipient: r, Device: "d"}) == nil {
				e.Fatalf("%s of the other app is gone", r)
			}
		}
	})
}

func objectsCrash(e *objectEnv) {
	if e.o.Crash == nil {
		e.Skip("the store cannot be tested so")
	}
	crashObjects(e, 5)
}

// crashObjects crashes twice each time.
func crashObjects(e *objectEnv, times int) {
	e.Helper()
	id := objectstore.ClientID{App: App, Recipient: "unit-1", Device: "main"}
	for i := range times {
		k := key("north", fmt.Sprint("o", i))
		e.put(App, k, object.Put{Version: object.Version(i + 1)})
		found := e.o.Crash()
		states, err := found.Get(e.Context(), App, []object.Key{k})
		if err != nil || states[0].Version != object.Version(i+1) {
			e.Fatalf("after a crash: %+v, %v", states, err)
		}
		e.save(objectstore.Save{ID: id, Keys: []object.Key{k}})
		v, err := e.o.Crash().Load(e.Context(), id)
		if err != nil || v == nil || len(v.Keys) != 1 || v.Keys[0] != k {
			e.Fatalf("registrations after a crash: %+v, %v", v, err)
		}
	}
}

func objectsConcurrent(e *objectEnv) {
	const callers, each = 8, 25
	k := key("north", "counter")
	var mu sync.Mutex
	given := make(map[object.Version]bool)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				v := &objectstore.Put{App: App, Key: k, At: e.now}
				err := e.s.Put(context.WithoutCancel(e.Context()), []*objectstore.Put{v})
				mu.Lock()
				if err != nil || !v.Changed || given[v.State.Version] {
					e.Errorf("put answered %+v, %v; given before: %v", v.State, err, given[v.State.Version])
				}
				given[v.State.Version] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	e.both(func() { e.wantState(App, k, object.State{Version: callers * each, Known: true, UpdatedAt: e.now}) })
	for i, c := range e.changes {
		if c.State.Version != object.Version(i+1) {
			e.Fatalf("change %d was version %d", i, c.State.Version)
		}
	}
}

func objectsClosed(e *objectEnv) {
	id := objectstore.ClientID{App: App, Recipient: "unit-1", Device: "main"}
	s := e.s
	e.o.Reopen()
	if err := s.Put(e.Context(), []*objectstore.Put{{App: App, Key: key("north", "a"), At: e.now}}); !errors.Is(err, mailbox.ErrClosed) {
		e.Fatalf("put: %v, want ErrClosed", err)
	}
	done := make(chan error, 2)
	s.Save(&objectstore.Save{ID: id, Keys: []object.Key{key("north", "a")}, SeenAt: e.now, Done: func(err error) { done <- err }})
	s.Touch([]objectstore.Touch{{ID: id, SeenAt: e.now}}, func(err error) { done <- err })
	for range 2 {
		if err := <-done; !errors.Is(err, mailbox.ErrClosed) {
			e.Fatalf("save or touch: %v, want ErrClosed", err)
		}
	}
}
