package nammayatri_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/compat/nammayatri"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// memory is an in-memory replacement of the streams in Redis.
type memory struct {
	mu      sync.Mutex
	router  mailbox.Router
	items   map[string][]mailbox.Item
	seqs    map[string]uint64
	pos     int64
	acked   []string
	marks   int
	here    map[string]int
	tokens  map[string]string
	expires map[string]time.Duration
	away    bool
	changed chan struct{} // closed and replaced at every change
}

var _ nammayatri.Store = (*memory)(nil)

var errAway = errors.New("redis is away")

func newMemory() *memory {
	return &memory{
		items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}, here: map[string]int{}, tokens: map[string]string{},
		expires: map[string]time.Duration{}, changed: make(chan struct{}),
	}
}

// change applies a change and wakes waiting goroutines.
func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// until waits until so returns true.
func (m *memory) until(ctx context.Context, so func() bool) bool {
	for {
		m.mu.Lock()
		ok, changed := so(), m.changed
		m.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (m *memory) publish(to, id string) {
	now := time.Now()
	var it mailbox.Item
	m.change(func() {
		m.pos++
		m.seqs[to]++
		it = mailbox.Item{Pos: m.pos, Recipient: to, Seq: m.seqs[to], N: &notification.Notification{
			App: nammayatri.App, ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			Content: notification.Content{Title: "Ride", Data: []byte(`{"show":"SHOW","entity":{"id":"e","type":"t","data":"{\"a\":1}"}}`)},
		}}
		m.items[to] = append(m.items[to], it)
	})
	m.router.Route([]mailbox.Item{it})
}

func (m *memory) Heads(_ context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]mailbox.Head, len(of))
	for i, a := range of {
		out[i] = mailbox.Head{LastSeq: m.seqs[a.Recipient], Waits: len(m.items[a.Recipient]) > 0}
	}
	return out, nil
}

func (m *memory) Pending(_ context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]mailbox.PendingResult, len(qs))
	for i, q := range qs {
		out[i].LastSeq = m.seqs[q.Recipient]
		for _, it := range m.items[q.Recipient] {
			switch {
			case slices.Contains(q.Have, it.Pos):
			case len(out[i].Items) == q.Limit:
				out[i].More = true
			default:
				out[i].Items = append(out[i].Items, it)
			}
		}
	}
	return out, nil
}

func (m *memory) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
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

func (m *memory) Lookup(context.Context, string, string, string) ([]mailbox.Record, error) {
	return nil, nil
}

func (m *memory) SettleLater(batch []*mailbox.Settle) {
	var done []mailbox.Settled
	m.change(func() {
		for _, s := range batch {
			m.acked = append(m.acked, s.ID)
			m.items[s.Recipient] = slices.DeleteFunc(m.items[s.Recipient], func(it mailbox.Item) bool {
				if it.N.ID != s.ID {
					return false
				}
				done = append(done, mailbox.Settled{App: s.App, Recipient: s.Recipient, ID: s.ID, Pos: it.Pos, As: s.As, Device: s.Device})
				return true
			})
		}
	})
	go m.router.Settled(done)
}

func (m *memory) Delivered(marks []mailbox.Mark)               { m.change(func() { m.marks += len(marks) }) }
func (m *memory) Seen([]mailbox.Seen)                          {}
func (m *memory) Mark([]mailbox.Mark)                          {}
func (m *memory) RouteTo(r mailbox.Router, _ mailbox.Presence) { m.router = r }
func (m *memory) Joined(client string)                         { m.change(func() { m.here[client]++ }) }

func (m *memory) Left(client string) { m.change(func() { m.here[client]-- }) }

func (m *memory) Ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errAway
	}
	return nil
}

func (m *memory) Token(_ context.Context, token string) (client string, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return "", false, errAway
	}
	client, ok = m.tokens[token]
	return client, ok, nil
}

func (m *memory) KeepToken(_ context.Context, token, client string, expiry time.Duration) error {
	if m.Ready(context.Background()) != nil {
		return errAway
	}
	m.change(func() { m.tokens[token], m.expires[token] = client, expiry })
	return nil
}
