// Package objectstore defines the interface of a store for objects and clients' registrations.
package objectstore

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/objects/object"
)

// ClientID identifies the owner of a set of registrations: a device of a recipient, in the group that its hello named.
type ClientID struct{ App, Recipient, Group, Device string }

// Put is one change of one object. The store fills in the results.
type Put struct {
	App string
	Key object.Key
	object.Put
	At time.Time

	State   object.State // the stored state, changed or not
	Changed bool
	Err     error // the error of input that only the stored state shows to be invalid
}

// Change is a committed change.
type Change struct {
	App   string
	Key   object.Key
	State *object.State // immutable
}

// Observer is informed of changes that are on disk, in commit order and before the callers that made them. It must not block.
type Observer interface {
	Changed(batch []Change)
}

// Item is an object with its state.
type Item struct {
	Key object.Key
	object.State
}

// Progress is a client's progress with one object, identified by its hash: within a client's set no two objects have the same hash, since
// the digest could not distinguish them either.
type Progress struct {
	Object      object.Digest
	Acked, Sent object.Version
}

// Save replaces the stored registrations of a client. No keys: the client has none any more. Keys and Progress are borrowed until
// Store.Save returns. Progress omits objects that the client neither got nor acknowledged.
type Save struct {
	ID       ClientID
	Keys     []object.Key
	SeenAt   time.Time
	Progress []Progress
	Done     func(error) // called once, from the store's goroutine: it must not block
}

// Touch records when a client was last seen, and the versions that it has. It is ignored for a client without stored registrations. If
// nodes share a store, only the node on which the client opened its last session can change the record: writes by other nodes are late, for
// example after the node was suspended, and change nothing.
type Touch struct {
	ID       ClientID
	SeenAt   time.Time
	Progress []Progress // nil: as it was
	Opened   time.Time  // when the session that Progress belongs to was opened
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
	// Observe sets the observer of all further changes. Changes before the call are not reported.
	Observe(obs Observer)

	// Put applies changes in order, all of them or none; only an invalid one fails alone.
	Put(ctx context.Context, batch []*Put) error
	// Get reads objects of one app, in the order of the keys. An object that was never put is a zero State.
	Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error)
	// Groups lists the groups of an app's objects by name, beginning behind after.
	Groups(ctx context.Context, app, after string, limit int) ([]string, error)
	// List reads objects of a group whose names begin with prefix and are behind after, by name.
	List(ctx context.Context, app, group, prefix, after string, limit int) ([]Item, error)

	// Load reads a client's registrations; nil if it has none.
	Load(ctx context.Context, id ClientID) (*Saved, error)
	// Save does not wait.
	Save(s *Save)
	// Touch does not wait either; it takes over the slice, and calls done once.
	Touch(batch []Touch, done func(error))
	// Watchers reads stored clients that are registered for an object. It starts after a cursor (0: the first) and examines look clients,
	// of which few may be watchers. next is the cursor for the next call, or 0.
	Watchers(ctx context.Context, app string, k object.Key, after int64, look int) (found []Watcher, next int64, err error)
	// Clients reads all stored clients of a recipient.
	Clients(ctx context.Context, app, recipient string) ([]Saved, error)
	// Away lists some stored clients that were last seen before a time.
	Away(ctx context.Context, before time.Time, limit int) ([]ClientID, error)
	// Drop deletes those of the clients that were last seen before a time, and returns how many there were.
	Drop(ctx context.Context, ids []ClientID, before time.Time) (int, error)
	// Erase deletes all stored clients of a recipient.
	Erase(ctx context.Context, app, recipient string) error
	// Stats counts what is stored.
	Stats(ctx context.Context) (objects, clients int64, err error)
}

// Shared is implemented by stores that other nodes change too. A Service polls such a store for those changes.
type Shared interface {
	// News lists objects of all apps that have changed since a time by the store's clock, in the order of their changes. from is the mark
	// of the page before; next is the mark for the following page, or nil after the last one. A change may appear only some time after its
	// own time: see Overlap.
	News(ctx context.Context, since time.Time, from *NewsMark, limit int) (news []News, next *NewsMark, err error)
}

// Overlap is how much later than its time a change may be committed: readers of news begin that much earlier.
const Overlap = time.Minute

// News is the state of an object that has changed.
type News struct {
	App     string
	Key     object.Key
	Version object.Version
	Known   bool
}

// NewsMark is a position in the order of changes.
type NewsMark struct {
	At  time.Time
	App string
	Key object.Key
}
