package eventlog

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	// tailBytes limits the memory for the newest events of all apps, encoded and decoded, which serve followers: some 100,000 events. They
	// are decoded on demand. Followers that lag further behind read the file.
	tailBytes = 16 << 20
	// followedFor is the time for which an app's tail stays after its last read, since followers come back. Tails without followers are
	// dropped to save memory.
	followedFor = time.Minute
)

// eventBytes is the size of a decoded event without its texts, which are parts of the chunk.
var eventBytes = int(reflect.TypeFor[event.Event]().Size()) // a hundred

// memory returns the bytes of a chunk together with its decoded events.
func (c *Chunk) memory() int { return 2*len(c.Data) + c.N*eventBytes }

// Tails holds the newest committed chunks of each app.
type Tails struct {
	mu        sync.Mutex
	committed uint64 // all events up to this id are in the file
	byApp     map[string]*tail
	order     []*Chunk // all chunks held, oldest first
	bytes     int
	limit     int // tailBytes
	closed    bool
}

// tail is the tail of one app: its chunks contain every committed event after id from.
type tail struct {
	from   uint64
	chunks []*Chunk
	news   chan struct{} // closed when the next chunk is added; nil: nobody waits
	looked time.Time     // when a follower last looked
}

// Start sets the id of the last stored event.
func (ts *Tails) Start(committed uint64) {
	ts.committed, ts.byApp, ts.limit = committed, make(map[string]*tail), tailBytes
}

// of finds or makes an app's tail. A new tail begins with the next event: earlier ones are in the file.
func (ts *Tails) of(app string) *tail {
	t := ts.byApp[app]
	if t == nil {
		t = &tail{from: ts.committed}
		ts.byApp[app] = t
	}
	return t
}

// Publish adds committed chunks and wakes the followers of their apps.
func (ts *Tails) Publish(chunks []*Chunk, upto uint64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	for _, c := range chunks {
		t := ts.of(c.App)
		if t.news == nil && now.Sub(t.looked) > followedFor {
			ts.drop(c.App, t)
			t.from = c.Last
			continue
		}
		t.chunks = append(t.chunks, c)
		ts.order = append(ts.order, c)
		ts.bytes += c.memory()
		if t.news != nil {
			close(t.news)
			t.news = nil
		}
	}
	ts.committed = upto
	for ts.bytes > ts.limit {
		ts.evict()
	}
}

// Committed returns the id of the last stored event, as far as this process knows.
func (ts *Tails) Committed() uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.committed
}

// Followed lists the apps with followers, and drops the tails of others. It serves logs in which other servers store events too: only these
// apps' events are read.
func (ts *Tails) Followed() (apps []string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	for app, t := range ts.byApp {
		if t.news == nil && now.Sub(t.looked) > followedFor {
			ts.drop(app, t)
			delete(ts.byApp, app)
			continue
		}
		apps = append(apps, app)
	}
	return apps
}

// Advance adds the stored chunks of these apps up to an id, in order. Followers of other apps that arrived meanwhile read the store.
func (ts *Tails) Advance(chunks []*Chunk, upto uint64, apps []string) {
	ts.mu.Lock()
	for app, t := range ts.byApp {
		if slices.Contains(apps, app) {
			continue
		}
		ts.drop(app, t)
		t.from = upto
		if t.news != nil {
			close(t.news)
			t.news = nil
		}
	}
	ts.mu.Unlock()
	ts.Publish(chunks, upto)
}

// drop removes all chunks of an app from memory.
func (ts *Tails) drop(app string, t *tail) {
	if len(t.chunks) == 0 {
		return
	}
	t.chunks = nil
	ts.order = slices.DeleteFunc(ts.order, func(c *Chunk) bool {
		if c.App == app {
			ts.bytes -= c.memory()
		}
		return c.App == app
	})
}

// Forget removes an app's events from memory, since some of them were deleted: followers then read the store.
func (ts *Tails) Forget(app string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byApp[app]; t != nil {
		ts.drop(app, t)
		t.from = ts.committed
	}
}

// evict removes the oldest chunk, which is the oldest of its app too.
func (ts *Tails) evict() {
	c := ts.order[0]
	ts.order[0] = nil
	ts.order = ts.order[1:]
	ts.bytes -= c.memory()
	t := ts.byApp[c.App]
	t.chunks = t.chunks[1:] // the array's slot keeps its value, since a follower may be reading it
	t.from = c.Last
}

// view is the part of a tail that a follower reads.
type view struct {
	inMemory  bool     // chunks is everything after since
	chunks    []*Chunk // in order
	committed uint64
	news      <-chan struct{} // closed when there are more events; set only if inMemory is true and there are no chunks
	closed    bool
}

func (ts *Tails) look(app string, since uint64) view {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of(app)
	t.looked = time.Now()
	v := view{inMemory: since >= t.from, committed: ts.committed, closed: ts.closed}
	if !v.inMemory {
		return v
	}
	i := len(t.chunks)
	for i > 0 && t.chunks[i-1].Last > since {
		i--
	}
	// Filled slots are never overwritten, so this slice stays valid after the lock is released.
	if v.chunks = t.chunks[i:]; len(v.chunks) > 0 || ts.closed {
		return v
	}
	if t.news == nil {
		t.news = make(chan struct{})
	}
	v.news = t.news
	return v
}

// Close wakes all followers for the last time.
func (ts *Tails) Close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, t := range ts.byApp {
		if t.news != nil {
			close(t.news)
			t.news = nil
		}
	}
}
