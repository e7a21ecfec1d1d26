package eventlog

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	// tailBytes is what the newest events may take in memory for followers, over all apps, encoded and decoded: some 100,000. They are
	// decoded on demand. Followers that fall further behind read the file.
	tailBytes = 16 << 20
	// followedFor is how long after the last look at an app's tail it is still kept: followers come back. Where nobody
	// follows, memory is kept free.
	followedFor = time.Minute
)

// eventBytes is what a decoded event takes beside its texts, which are parts of the chunk's.
var eventBytes = int(reflect.TypeFor[event.Event]().Size()) //nolint:gosec // a hundred

// memory is what a chunk takes with its events.
func (c *Chunk) memory() int { return 2*len(c.Data) + c.N*eventBytes }

// Tails hold the newest committed chunks of each app.
type Tails struct {
	mu        sync.Mutex
	committed uint64 // all events up to this id are in the file
	byApp     map[string]*tail
	order     []*Chunk // all chunks held, oldest first
	bytes     int
	limit     int // tailBytes
	closed    bool
}

// tail is one app's: every committed event after id from is in chunks.
type tail struct {
	from   uint64
	chunks []*Chunk
	news   chan struct{} // closed with the next chunk; nil while nobody waits
	looked time.Time     // when a follower last looked
}

// Start says how far what is stored reaches.
func (ts *Tails) Start(committed uint64) {
	ts.committed, ts.byApp, ts.limit = committed, make(map[string]*tail), tailBytes
}

// of finds or makes an app's tail. A new tail starts here: earlier events are in the file.
func (ts *Tails) of(app string) *tail {
	t := ts.byApp[app]
	if t == nil {
		t = &tail{from: ts.committed}
		ts.byApp[app] = t
	}
	return t
}

// Publish adds what was committed and wakes the followers of its apps.
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

// Committed is how far what is stored reaches, as far as is known here.
func (ts *Tails) Committed() uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.committed
}

// Followed lists the apps that have followers, and forgets the others. For a log that others store in too: what they
// stored is read for these alone.
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

// Advance adds what has been stored up to an id, in order: all of it that is of these apps. Followers of others, who came meanwhile, read
// what is stored.
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

// drop forgets all chunks of an app.
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

// Forget drops an app's events from memory, since some of them were deleted: followers read the store.
func (ts *Tails) Forget(app string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byApp[app]; t != nil {
		ts.drop(app, t)
		t.from = ts.committed
	}
}

// evict forgets the oldest chunk, which is the oldest of its app too.
func (ts *Tails) evict() {
	c := ts.order[0]
	ts.order[0] = nil
	ts.order = ts.order[1:]
	ts.bytes -= c.memory()
	t := ts.byApp[c.App]
	t.chunks = t.chunks[1:] // the slot stays as it is: a follower may be looking at it
	t.from = c.Last
}

// view is what a follower finds.
type view struct {
	inMemory  bool     // chunks is everything after since
	chunks    []*Chunk // in order
	committed uint64
	news      <-chan struct{} // closed when there is more; only with inMemory and no chunks
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
	// Slots that are filled are never written again, so this stays valid after the lock.
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
