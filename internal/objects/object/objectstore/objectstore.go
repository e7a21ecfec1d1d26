// Package objectstore defines the interface of a store for objects and clients' registrations.
package objectstore

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/objects/object"
)

// ClientID names who a set of registrations belongs to: a device of a recipient in the group its hello named.
type ClientID struct{ App, Recipient, Group, Device string }

// Put is one change of one object. The store fills in the results.
type Put struct {
	App string
	Key object.Key
	object.Put
	At time.Time

	State   object.State // the stored one, changed or not
	Changed bool
	Err     error // bad input that only the stored state shows
}

// Change is a committed change.
type Change struct {
	App   string
	Key   object.Key
	State *object.State // immutable
}

// Observer learns of changes that are on disk, in commit order and before the callers that made them. It must not
// block.
type Observer interface {
	Changed(batch []Change)
}

// Item is an object with its state.
type Item struct {
	Key object.Key
	object.State
}

// Progress is a client's progress with one object, which its hash names: within one client's set no two objects share a
// hash, or the digest would not tell them apart either.
type Progress struct {
	Object      object.Digest
	Acked, Sent object.Version
}

// Save replaces the stored registrations of a client. No keys: it has none any more. Keys and Progress are borrowed until
// Store.Save returns; objects of which the client has nothing are not in Progress.
type Save struct {
	ID       ClientID
	Keys     []object.Key
	SeenAt   time.Time
	Progress []Progress
	Done     func(error) // called once, from the store's goroutine: it must not block
}

// Touch notes when a client was last seen, and the versions that it has. A client without stored registrations is ignored.
// If nodes share a store, only the node counts on which the client opened its last session: writes by another are late, as
// when that node was suspended, and change nothing.
type Touch struct {
	ID       ClientID
	SeenAt   time.Time
	Progress []Progress // nil: as it was
	Opened   time.Time  // when the client's session was; of Progress
}

// Saved is a stored client.
type Saved struct {
	ID       ClientID
	SeenAt   time.Time
	Keys     []object.Key
	Progress []Progress
}

// Watcher is a stored client that is registered for one object.
type Watcher struct {
	ID          ClientID
	SeenAt      time.Time
	Acked, Sent object.Version
}

// Store keeps objects and registrations. Changes are on disk when a method returns, except for Save, which does not
// wait, and Touch, which is best effort. Errors are mailbox.ErrNoSpace and mailbox.ErrClosed where they apply.
type Store interface {
	// Observe sets the observer of all further changes. Before it is called, changes are not reported.
	Observe(obs Observer)

	// Put applies changes in order, all of them or none, except that one with bad input fails alone.
	Put(ctx context.Context, batch []*Put) error
	// Get reads objects of one app, in the order of the keys. An object that was never put is a zero State.
	Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error)
	// Groups lists the groups that objects of an app are in, from the one after another on, by name.
	Groups(ctx context.Context, app, after string, limit int) ([]string, error)
	// List reads objects of a group whose names begin with prefix and come after another, by name.
	List(ctx context.Context, app, group, prefix, after string, limit int) ([]Item, error)

	// Load reads a client's registrations. A client that has none is nil.
	Load(ctx context.Context, id ClientID) (*Saved, error)
	// Save does not wait.
	Save(s *Save)
	// Touch does not wait either; it takes the slice, and calls done once.
	Touch(batch []Touch, done func(error))
	// Watchers reads stored clients that are registered for an object. It starts after a cursor (0: the first) and reads
	// look clients, few of them watchers perhaps; next is the cursor to go on with, or 0.
	Watchers(ctx context.Context, app string, k object.Key, after int64, look int) (found []Watcher, next int64, err error)
	// Clients reads all stored clients of a recipient.
	Clients(ctx context.Context, app, recipient string) ([]Saved, error)
	// Away lists some stored clients that were last seen before a time.
	Away(ctx context.Context, before time.Time, limit int) ([]ClientID, error)
	// Drop deletes clients if they were last seen before a time, and says how many.
	Drop(ctx context.Context, ids []ClientID, before time.Time) (int, error)
	// Erase deletes all stored clients of a recipient.
	Erase(ctx context.Context, app, recipient string) error
	// Stats counts what is stored.
	Stats(ctx context.Context) (objects, clients int64, err error)
}

// Shared is implemented by stores that other nodes change too. A Service polls such a store for their changes.
type Shared interface {
	// News lists objects of all apps that have changed since a time by the store's clock, in the order of their changes.
	// from goes on behind a page; next is what to go on from, nil: that was the last one. A change may be there only some
	// time after its own: see Overlap.
	News(ctx context.Context, since time.Time, from *NewsMark, limit int) (news []News, next *NewsMark, err error)
}

// Overlap is how much later than its time a change may be committed: readers of news go back that far.
const Overlap = time.Minute

// News is the state of an object that has changed.
type News struct {
	App     string
	Key     object.Key
	Version object.Version
	Known   bool
}

// NewsMark is a place in the order of changes.
type NewsMark struct {
	At  time.Time
	App string
	Key object.Key
}
