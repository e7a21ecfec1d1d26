package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// memory is a mailbox of one app in memory, with only the operations that sessions need.
type memory struct {
	mu      sync.Mutex
	hub     *Hub
	items   map[string][]mailbox.Item // by recipient, in seq order
	seqs    map[string]uint64
	pos     int64
	settles []mailbox.Settle
	seen    []mailbox.Seen
	said    []mailbox.Mark // marks with answers of clients that settle nothing
	held    bool           // acknowledgements stay queued, as before a commit
	nacks   map[string]int
	marks   []mailbox.Mark
	reads   int // of rows
	looks   int // at heads
	fail    bool
	settled func(batch []*mailbox.Settle) // called with the settles of sessions; may be nil
	during  func()                        // called while copies in flight are read; may be nil
}

var errStore = errors.New("store is away")

func (m *memory) publish(n *notification.Notification, to string) {
	m.mu.Lock()
	m.pos++
	m.seqs[to]++
	it := mailbox.Item{Pos: m.pos, Recipient: to, Seq: m.seqs[to], N: n}
	m.items[to] = append(m.items[to], it)
	m.mu.Unlock()
	m.hub.Route([]mailbox.Item{it})
}

// copyOf is one copy of a notification.
type copyOf struct{ to, id string }

// publishAtOnce routes the copies of one commit, each with a notification of its own.
func (m *memory) publishAtOnce(copies ...copyOf) {
	var items []mailbox.Item
	for _, c := range copies {
		m.lose(c.to, c.id)
		items = append(items, m.items[c.to][len(m.items[c.to])-1])
	}
	m.hub.Route(items)
}

// asked returns how often rows and heads were read.
func (m *memory) asked() (reads, looks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads, m.looks
}

func (m *memory) failing(fail bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

// lose stores a notification without routing it.
func (m *memory) lose(to, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pos++
	m.seqs[to]++
	n := &notification.Notification{App: "demo", ID: id}
	m.items[to] = append(m.items[to], mailbox.Item{Pos: m.pos, Recipient: to, Seq: m.seqs[to], N: n})
}

// forget removes a recipient's copies without informing the sessions.
func (m *memory) forget(to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[to] = nil
}

// goBack removes a recipient's items after seq, like a failover to a replica that had not received them yet. Their positions will be
// assigned again too.
func (m *memory) goBack(to string, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[to] = slices.DeleteFunc(m.items[to], func(it mailbox.Item) bool { return it.Seq > seq })
	m.pos -= int64(m.seqs[to] - seq)
	m.seqs[to] = seq
}

// routeAgain routes all copies of a recipient again.
func (m *memory) routeAgain(to string) {
	m.mu.Lock()
	items := slices.Clone(m.items[to])
	m.mu.Unlock()
	m.hub.Route(items)
}

func (m *memory) Heads(_ context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	if m.fail {
		return nil, errStore
	}
	out := make([]mailbox.Head, len(of))
	for i, a := range of {
		out[i] = mailbox.Head{LastSeq: m.seqs[a.Recipient], Waits: len(m.items[a.Recipient]) > 0}
	}
	return out, nil
}

func (m *memory) Pending(_ context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fail {
		return nil, errStore
	}
	out := make([]mailbox.PendingResult, len(qs))
	for i, q := range qs {
		out[i].LastSeq = m.seqs[q.Recipient]
		byPriority := slices.Clone(m.items[q.Recipient])
		slices.SortStableFunc(byPriority, func(a, b mailbox.Item) int { return int(a.N.Priority) - int(b.N.Priority) })
		for _, it := range byPriority {
			if slices.Contains(q.Have, it.Pos) {
				continue
			}
			if len(out[i].Items) == q.Limit {
				out[i].More = true
				break
			}
			out[i].Items = append(out[i].Items, it)
		}
	}
	return out, nil
}

func (m *memory) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	if m.during != nil {
		m.during()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*mailbox.Item, len(refs))
	for i, r := range refs {
		for _, it := range m.items[r.Recipient] {
			if it.Pos == r.Pos {
				out[i] = &it
			}
		}
	}
	return out, nil
}

func (m *memory) Lookup(_ context.Context, _, id, to string) ([]mailbox.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range m.items[to] {
		if it.N.ID == id {
			return []mailbox.Record{{ID: id, To: to, Status: notification.Stored}}, nil
		}
	}
	return nil, nil
}

func (m *memory) SettleLater(batch []*mailbox.Settle) {
	if m.settled != nil {
		m.settled(batch)
	}
	m.mu.Lock()
	var done []mailbox.Settled
	for _, s := range batch {
		m.settles = append(m.settles, *s)
		if s.Nack {
			m.nacks[s.ID]++
		}
		if m.held || s.Nack && m.nacks[s.ID] < notification.MaxNacks {
			continue
		}
		items := m.items[s.Recipient]
		for i, it := range items {
			if it.N.ID == s.ID {
				m.items[s.Recipient] = slices.Delete(items, i, i+1)
				done = append(done, mailbox.Settled{App: s.App, Recipient: s.Recipient, ID: s.ID, Pos: it.Pos, As: s.As, Device: s.Device})
				break
			}
		}
	}
	m.mu.Unlock()
	// The session that acknowledges holds its lock, so the commit is reported from another goroutine, as in a real store.
	go m.hub.Settled(done)
}

func (m *memory) Delivered(marks []mailbox.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks = append(m.marks, marks...)
}

func (m *memory) Seen(batch []mailbox.Seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, batch...)
}

func (m *memory) Mark(batch []mailbox.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, batch...)
}

func (m *memory) RouteTo(mailbox.Router, mailbox.Presence) {}

// doors verifies clients by tokens such as "bad" and an expiry written as a duration: "30s".
type doors struct{ now func() time.Time }

func (d doors) Known(c access.Claim) (access.Client, error) { return d.Client(context.Background(), c) }

func (d doors) Client(_ context.Context, c access.Claim) (access.Client, error) {
	out := access.Client{App: "demo", Recipient: c.Recipient, Device: c.Device}
	switch c.Token {
	case "bad":
		return out, access.ErrUnauthenticated
	case "nobody":
		out.Recipient = ""
	case "eve's":
		out.Recipient = "eve"
	case "peek":
		out.Peek = true
	case "":
	case "topics":
		out.Topics = []string{">"}
	case "one topic":
		out.Topics, out.Serve = []string{"a"}, []string{">"}
	default:
		ttl, err := time.ParseDuration(c.Token)
		if err != nil {
			return out, err
		}
		out.Expires = d.now().Add(ttl)
	}
	return out, nil
}

// wire is a client connection that keeps the frames it receives.
type wire struct {
	mu     sync.Mutex
	s      *Session
	frames []map[string]json.RawMessage
	full   bool
	probes int
	mute   bool // does not answer probes
	closed *frame.Goodbye
	corks  int
	held   int   // frames since it was corked
	pieces []int // for each send, how many frames were sent together
}

func (w *wire) Cork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corks++
}

func (w *wire) Uncork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.corks--; w.corks == 0 && w.held > 0 {
		w.pieces, w.held = append(w.pieces, w.held), 0
	}
}

// left returns how many frames each send had, and clears the record.
func (w *wire) left() []int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.pieces = nil }()
	return w.pieces
}

func (w *wire) Format() frame.Format { return frame.JSON }
func (w *wire) Name() string         { return "test" }
func (w *wire) Pause()               {}
func (w *wire) Resume()              {}

func (w *wire) Write(_ frame.ServerKind, head, tail []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full || w.closed != nil {
		return false
	}
	var f map[string]json.RawMessage
	if err := json.Unmarshal(slices.Concat(head, tail), &f); err != nil {
		panic(err)
	}
	w.frames = append(w.frames, f)
	if w.corks > 0 {
		w.held++
	} else {
		w.pieces = append(w.pieces, 1)
	}
	return true
}

// fill sets whether the connection takes no more.
func (w *wire) fill(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

func (w *wire) Probe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probes++
	if !w.mute {
		go w.s.Alive()
	}
}

func (w *wire) Close(g frame.Goodbye) {
	w.mu.Lock()
	w.closed = &g
	w.mu.Unlock()
	go w.s.Closed()
}

// got returns the frames so far as "kind id" strings, and clears them.
func (w *wire) got() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, f := range w.frames {
		for kind, body := range f {
			var b struct {
				ID, Reason, Code string
				IDs              []string
				Attempt          int
			}
			_ = json.Unmarshal(body, &b)
			word := kind + " " + b.ID + b.Reason + b.Code + strings.Join(b.IDs, ",")
			if b.Attempt > 1 {
				word += " again"
			}
			out = append(out, strings.TrimSpace(word))
		}
	}
	w.frames = nil
	return out
}

func (w *wire) ack(ids ...string) {
	f := &frame.Client{Kind: frame.KindAck}
	for _, id := range ids {
		f.IDs = append(f.IDs, []byte(id))
	}
	w.s.Frame(f)
}

func (w *wire) nack(after time.Duration, ids ...string) {
	f := &frame.Client{Kind: frame.KindNack, After: after, Reason: []byte("too deep")}
	for _, id := range ids {
		f.IDs = append(f.IDs, []byte(id))
	}
	w.s.Frame(f)
}

// world is a hub over a mailbox in memory, inside a synctest bubble.
type world struct {
	t    *testing.T
	hub  *Hub
	mail *memory
	evs  *log
}

type log struct {
	mu  sync.Mutex
	evs []event.Event
}

func (l *log) Emit(evs []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evs = append(l.evs, evs...)
}

func inWorld(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		mail := &memory{nacks: map[string]int{}, items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}}
		w := &world{t: t, mail: mail, evs: &log{}}
		w.hub = NewHub(Config{
			Store: mail, Mailbox: mail, Verifier: doors{time.Now}, Events: w.evs, Now: mailbox.Clock(), Log: slog.New(slog.DiscardHandler),
		})
		mail.hub = w.hub
		defer func() { _ = w.hub.Close() }()
		f(w)
		synctest.Wait()
	})
}

func (w *world) connect(h frame.Hello) *wire {
	c := &wire{}
	c.s = w.hub.Accept(c, Peer{})
	c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &h})
	synctest.Wait()
	return c
}

// untilCompared sleeps until a session has compared itself with the store.
func (w *world) untilCompared(c *wire) { w.beforeComparison(c, -3*tick) }

// beforeComparison sleeps until d before the session's next comparison.
func (w *world) beforeComparison(c *wire, d time.Duration) {
	c.s.mu.Lock()
	left := time.Duration(c.s.rereadAt)*tick - w.hub.cfg.Now().Sub(w.hub.start)
	c.s.mu.Unlock()
	time.Sleep(left - d)
}

func (w *world) publish(to, id string, change ...func(*notification.Notification)) {
	now := time.Now()
	n := &notification.Notification{App: "demo", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for _, c := range change {
		c(n)
	}
	w.mail.publish(n, to)
}

func (w *world) expect(c *wire, want ...string) {
	w.t.Helper()
	if got := c.got(); !slices.Equal(got, want) {
		w.t.Fatalf("client got %q, want %q", got, want)
	}
}
