package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

func (e *objectEnv) save(v objectstore.Save) {
	e.Helper()
	done := make(chan error, 1)
	v.Done = func(err error) { done <- err }
	if v.SeenAt.IsZero() {
		v.SeenAt = e.now
	}
	e.s.Save(&v)
	if err := <-done; err != nil {
		e.Fatalf("save %+v: %v", v.ID, err)
	}
}

func (e *objectEnv) touch(batch ...objectstore.Touch) {
	e.Helper()
	done := make(chan error, 1)
	e.s.Touch(batch, func(err error) { done <- err })
	if err := <-done; err != nil {
		e.Fatalf("touch: %v", err)
	}
}

func (e *objectEnv) load(id objectstore.ClientID) *objectstore.Saved {
	e.Helper()
	v, err := e.s.Load(e.Context(), id)
	if err != nil {
		e.Fatalf("load %+v: %v", id, err)
	}
	return v
}

// wantSaved compares a stored client, ignoring the order of keys and progress.
func (e *objectEnv) wantSaved(id objectstore.ClientID, want *objectstore.Saved) {
	e.Helper()
	got := e.load(id)
	for _, v := range []*objectstore.Saved{got, want} {
		if v != nil {
			slices.SortFunc(v.Keys, object.Key.Compare)
			slices.SortFunc(v.Progress, func(a, b objectstore.Progress) int {
				if a.Object < b.Object {
					return -1
				}
				return 1
			})
		}
	}
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("stored of %+v: %+v, want %+v", id, got, want)
	}
}

func clientsSaved(e *objectEnv) {
	id := objectstore.ClientID{App: App, Recipient: "unit-1", Group: "north", Device: "main"}
	if v := e.load(id); v != nil {
		e.Fatalf("a client nobody stored: %+v", v)
	}
	a, b, c := key("north", "a"), key("south", "b"), key("north", "c")
	e.save(objectstore.Save{ID: id, Keys: []object.Key{a, b}, Progress: []objectstore.Progress{{Object: a.Hash(), Acked: 5, Sent: 7}, {Object: b.Hash()}}})
	e.both(func() {
		e.wantSaved(id, &objectstore.Saved{ID: id, SeenAt: e.now, Keys: []object.Key{a, b}, Progress: []objectstore.Progress{{Object: a.Hash(), Acked: 5, Sent: 7}}})
	})
	e.save(objectstore.Save{ID: id, Keys: []object.Key{c}, SeenAt: e.now.Add(time.Minute), Progress: []objectstore.Progress{{Object: c.Hash(), Sent: object.MaxVersion}, {Object: a.Hash(), Acked: object.MaxVersion, Sent: 1}}})
	e.both(func() {
		e.wantSaved(id, &objectstore.Saved{
			ID: id, SeenAt: e.now.Add(time.Minute), Keys: []object.Key{c},
			Progress: []objectstore.Progress{{Object: c.Hash(), Sent: object.MaxVersion}, {Object: a.Hash(), Acked: object.MaxVersion, Sent: 1}},
		})
	})
	e.save(objectstore.Save{ID: id})
	e.save(objectstore.Save{ID: id}) // deleting again changes nothing
	e.both(func() { e.wantSaved(id, nil) })
}

func clientsApart(e *objectEnv) {
	base := objectstore.ClientID{App: App, Recipient: "unit-1", Group: "north", Device: "main"}
	ids := []objectstore.ClientID{base, base, base, base}
	ids[1].Device, ids[2].Group, ids[3].Recipient = "spare", "", "unit-2"
	for i, id := range ids {
		e.save(objectstore.Save{ID: id, Keys: []object.Key{key("north", fmt.Sprint("o", i))}})
	}
	e.save(objectstore.Save{ID: ids[1]})
	e.both(func() {
		for i, id := range ids {
			if i == 1 {
				e.wantSaved(id, nil)
				continue
			}
			e.wantSaved(id, &objectstore.Saved{ID: id, SeenAt: e.now, Keys: []object.Key{key("north", fmt.Sprint("o", i))}})
		}
		all, err := e.s.Clients(e.Context(), App, "unit-1")
		if err != nil || len(all) != 2 || all[0].ID != ids[2] || all[1].ID != ids[0] {
			e.Fatalf("clients of unit-1: %+v, %v", all, err)
		}
	})
	objects, clients, err := e.s.Stats(e.Context())
	if err != nil || objects != 0 || clients != 3 {
		e.Fatalf("stats %d, %d, %v; want 0 objects, 3 clients", objects, clients, err)
	}
}

func clientsTouched(e *objectEnv) {
	id := objectstore.ClientID{App: App, Recipient: "unit-1", Device: "main"}
	k := key("north", "a")
	later := e.now.Add(time.Hour)
	e.save(objectstore.Save{ID: id, Keys: []object.Key{k}, Progress: []objectstore.Progress{{Object: k.Hash(), Sent: 1}}})
	batch := []objectstore.Touch{{ID: id, SeenAt: later, Progress: []objectstore.Progress{{Object: k.Hash(), Acked: 2, Sent: 2}}}}
	for i := range 600 { // more clients than one commit of background work takes
		batch = append(batch, objectstore.Touch{ID: objectstore.ClientID{App: App, Recipient: fmt.Sprint("nobody-", i), Device: "d"}, SeenAt: later})
	}
	e.touch(batch...)
	e.touch(objectstore.Touch{ID: id, SeenAt: e.now}) // an older time is ignored, and progress stays
	e.both(func() {
		e.wantSaved(id, &objectstore.Saved{ID: id, SeenAt: later, Keys: []object.Key{k}, Progress: []objectstore.Progress{{Object: k.Hash(), Acked: 2, Sent: 2}}})
		e.wantSaved(batch[1].ID, nil)
	})
}

func clientsWatchers(e *objectEnv) {
	a := key("north", "a")
	var want []string
	for i := range 30 {
		id := objectstore.ClientID{App: App, Recipient: fmt.Sprint("unit-", i), Group: "north", Device: "d"}
		keys := []object.Key{key("south", "a"), key("north", "aa"), key("north", "b.a")} // each key contains an "a"
		if i%3 == 0 {
			keys = append(keys, a)
			want = append(want, id.Recipient)
		}
		e.save(objectstore.Save{ID: id, Keys: keys, Progress: []objectstore.Progress{{Object: a.Hash(), Acked: 3, Sent: object.Version(4 + i)}}})
	}
	for _, look := range []int{7, 15, 30, 1000} {
		e.wantWatchers(a, want, look)
	}
}

// wantWatchers searches for the clients registered for an object, and examines look clients per page.
func (e *objectEnv) wantWatchers(a object.Key, want []string, look int) {
	e.both(func() {
		var got []string
		for after := int64(0); ; {
			found, next, err := e.s.Watchers(e.Context(), App, a, after, look)
			if err != nil {
				e.Fatal(err)
			}
			for _, w := range found {
				var i int
				if _, err := fmt.Sscanf(w.ID.Recipient, "unit-%d", &i); err != nil || w.Acked != 3 || w.Sent != object.Version(4+i) || !w.SeenAt.Equal(e.now) {
					e.Fatalf("watcher %+v, %v", w, err)
				}
				got = append(got, w.ID.Recipient)
			}
			if len(found) > look {
				e.Fatalf("%d of %d that were looked at", len(found), look)
			}
			if next == 0 {
				break
			}
			after = next
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			e.Fatalf("watchers %v, want %v", got, want)
		}
	})
}

func clientsAway(e *objectEnv) {
	var ids []objectstore.ClientID
	for i := range 5 {
		id := objectstore.ClientID{App: App, Recipient: fmt.Sprint("unit-", i), Device: "d"}
		e.save(objectstore.Save{ID: id, Keys: []object.Key{key("north", "a")}, SeenAt: e.now.Add(time.Duration(i) * time.Hour)})
		ids = append(ids, id)
	}
	before := e.now.Add(3 * time.Hour)
	away, err := e.s.Away(e.Context(), before, 2)
	if err != nil || !slices.Equal(away, ids[:2]) {
		e.Fatalf("the two longest away: %v, %v", away, err)
	}
	away, err = e.s.Away(e.Context(), before, 100)
	if err != nil || !slices.Equal(away, ids[:3]) {
		e.Fatalf("away: %v, %v", away, err)
	}
	e.touch(objectstore.Touch{ID: ids[1], SeenAt: before}) // came back in between
	if n, err := e.s.Drop(e.Context(), append(away, objectstore.ClientID{App: App, Recipient: "nobody"}), before); err != nil || n != 2 {
		e.Fatalf("dropped %d, %v; want the two that stayed away", n, err)
	}
	e.both(func() {
		for i, id := range ids {
			if gone := e.load(id) == nil; gone != (i == 0 || i == 2) {
				e.Fatalf("unit %d is gone: %v", i, gone)
			}
		}
	})
}

func clientsErased(e *objectEnv) {
	for _, r := range []string{"unit-1", "unit-2"} {
		for _, d := range []string{"a", "b"} {
			e.save(objectstore.Save{ID: objectstore.ClientID{App: App, Recipient: r, Device: d}, Keys: []object.Key{key("north", "a")}})
		}
	}
	if err := e.s.Erase(e.Context(), App, "unit-1"); err != nil {
		e.Fatal(err)
	}
	e.both(func() {
		for r, want := range map[string]int{"unit-1": 0, "unit-2": 2} {
			if got, err := e.s.Clients(e.Context(), App, r); err != nil || len(got) != want {
				e.Fatalf("%s has %d clients, %v; want %d", r, len(got), err, want)
			}
		}
		if away, err := e.s.Away(e.Context(), e.now.Add(time.Hour), 10); err != nil || len(away) != 2 {
			e.Fatalf("away: %v, %v", away, err)
		}
	})
}
