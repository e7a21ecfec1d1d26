package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// copyKey names one copy.
type copyKey struct{ app, to, id string }

// memory is an in-memory mailbox, sufficient to test the API. fail makes every call fail.
type memory struct {
	mu     sync.Mutex
	log    []*memoryCopy
	byKey  map[copyKey]*memoryCopy
	fail   error
	full   map[string]bool // recipients whose mailbox is full
	commit []int           // copies of each Append
	gate   chan struct{}   // Append waits until it is closed; nil: Append does not wait
	waits  int             // calls of Append that do
}

// errPanic makes Append panic if it is set as the error to fail with.
var errPanic = errors.New("boom")

// hold makes Append wait until release is called, which may be called again.
func (m *memory) hold() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := make(chan struct{})
	m.gate = gate
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.gate = nil
		close(gate)
	})
}

// held returns the number of waiting calls of Append.
func (m *memory) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits
}

func (m *memory) wait() {
	m.mu.Lock()
	gate := m.gate
	if gate == nil {
		m.mu.Unlock()
		return
	}
	m.waits++
	m.mu.Unlock()
	<-gate
	m.mu.Lock()
	m.waits--
	m.mu.Unlock()
}

type memoryCopy struct {
	app     string
	content notification.Content
	rec     mailbox.Record
}

func newMemory() *memory { return &memory{byKey: map[copyKey]*memoryCopy{}, full: map[string]bool{}} }

func (m *memory) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) commits() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commit)
}

func (m *memory) content(app, to, id string) (notification.Content, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.byKey[copyKey{app, to, id}]
	if c == nil {
		return notification.Content{}, false
	}
	return c.content, true
}

func (m *memory) Append(_ context.Context, batch []*mailbox.Append) error {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(m.fail, errPanic) {
		panic(m.fail)
	}
	if m.fail != nil {
		return m.fail
	}
	n := 0
	for _, a := range batch {
		a.Results = make([]mailbox.AppendResult, len(a.To))
		for i, to := range a.To {
			a.Results[i] = m.append(a.N, to, a.Refused)
			n++
		}
	}
	m.commit = append(m.commit, n)
	return nil
}

func (m *memory) append(n *notification.Notification, to string, refused error) mailbox.AppendResult {
	at := copyKey{n.App, to, n.ID}
	if c := m.byKey[at]; c != nil {
		if c.content.Title != n.Content.Title || string(c.content.Data) != string(n.Content.Data) || c.content.Body != n.Content.Body {
			return mailbox.AppendResult{Err: mailbox.ErrConflict}
		}
		return mailbox.AppendResult{Status: c.rec.Status, Duplicate: true, ExpiresAt: c.rec.ExpiresAt}
	}
	if refused != nil {
		return mailbox.AppendResult{Err: refused}
	}
	if m.full[to] {
		return mailbox.AppendResult{Err: mailbox.ErrFull}
	}
	c := &memoryCopy{app: n.App, content: n.Content, rec: mailbox.Record{
		ID: n.ID, To: to, Status: notification.Stored, Ack: n.Ack, Priority: n.Priority, Seq: uint64(len(m.log) + 1),
		CreatedAt: n.CreatedAt, SendAt: n.SendAt, ExpiresAt: n.ExpiresAt, Pos: int64(len(m.log) + 1),
	}}
	if !n.SendAt.IsZero() {
		c.rec.Status, c.rec.Seq = notification.Scheduled, 0
	}
	m.log = append(m.log, c)
	m.byKey[at] = c
	return mailbox.AppendResult{Status: c.rec.Status, ExpiresAt: n.ExpiresAt}
}

func (m *memory) settle(as notification.Status, match func(*memoryCopy) bool) (n int) {
	for _, c := range m.log {
		if match(c) && c.rec.Status < notification.Acked {
			c.rec.Status, c.rec.SettledAt = as, c.rec.CreatedAt.Add(1500*time.Millisecond)
			if as == notification.Acked {
				c.rec.DeliveredAt, c.rec.Attempts = c.rec.CreatedAt.Add(time.Second), 1
			}
			n++
		}
	}
	return n
}

func (m *memory) Recall(ctx context.Context, app, id, to string) (int, error) {
	if rs, err := m.Lookup(ctx, app, id, to); err != nil || len(rs) == 0 {
		return 0, cmp.Or(err, mailbox.ErrNotFound)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settle(notification.Recalled, func(c *memoryCopy) bool {
		return c.app == app && c.rec.ID == id && (to == "" || c.rec.To == to)
	}), nil
}

func (m *memory) Ack(_ context.Context, app, recipient, _ string, ids []string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return 0, m.fail
	}
	return m.settle(notification.Acked, func(c *memoryCopy) bool {
		return c.app == app && c.rec.To == recipient && slices.Contains(ids, c.rec.ID)
	}), nil
}

func (m *memory) records(match func(*memoryCopy) bool) (rs []mailbox.Record) {
	for _, c := range m.log {
		if match(c) {
			rs = append(rs, c.rec)
		}
	}
	return rs
}

func (m *memory) Lookup(_ context.Context, app, id, to string) ([]mailbox.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records(func(c *memoryCopy) bool {
		return c.app == app && c.rec.ID == id && (to == "" || c.rec.To == to)
	}), m.fail
}

func (m *memory) History(_ context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rs := m.records(func(c *memoryCopy) bool {
		return c.app == app && c.rec.To == recipient && (status == 0 || c.rec.Status == status) && (cursor == 0 || c.rec.Pos < cursor)
	})
	slices.Reverse(rs)
	if len(rs) > limit {
		rs = rs[:limit]
		next = rs[limit-1].Pos
	}
	return rs, next, m.fail
}

func (m *memory) Recipients(_ context.Context, app string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]int{}
	for _, c := range m.log {
		if c.app == app && c.rec.To > cursor {
			if c.rec.Status < notification.Acked {
				found[c.rec.To]++
			} else {
				found[c.rec.To] += 0
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if len(items) == limit {
			return items, items[limit-1].Name, m.fail
		}
		items = append(items, mailbox.RecipientInfo{Name: name, Pending: found[name]})
	}
	return items, "", m.fail
}

func (m *memory) Recipient(ctx context.Context, app, recipient string) (mailbox.RecipientInfo, error) {
	all, _, err := m.Recipients(ctx, app, 1<<30, "")
	for _, r := range all {
		if r.Name == recipient {
			return r, err
		}
	}
	return mailbox.RecipientInfo{}, cmp.Or(err, mailbox.ErrNotFound)
}

func (m *memory) Erase(ctx context.Context, app, recipient string) error {
	if _, err := m.Recipient(ctx, app, recipient); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := func(c *memoryCopy) bool { return c.app == app && c.rec.To == recipient }
	m.log = slices.DeleteFunc(m.log, mine)
	maps.DeleteFunc(m.byKey, func(_ copyKey, c *memoryCopy) bool { return mine(c) })
	return nil
}

func (m *memory) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*mailbox.Item, len(refs))
	for i, r := range refs {
		if r.Pos > int64(len(m.log)) {
			continue
		}
		if c := m.log[r.Pos-1]; c.app == r.App && c.rec.To == r.Recipient {
			out[i] = &mailbox.Item{Pos: r.Pos, N: &notification.Notification{ID: c.rec.ID, CreatedAt: c.rec.CreatedAt, SendAt: c.rec.SendAt}}
		}
	}
	return out, m.fail
}

func (m *memory) Stats() mailbox.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return mailbox.Stats{Pending: int64(len(m.log)), Commits: uint64(len(m.commit)), FreeBytes: 1 << 30}
}

func (m *memory) Counts() (uint64, map[notification.Status]uint64) {
	return uint64(m.Stats().Pending), map[notification.Status]uint64{notification.Acked: 3}
}

func (m *memory) Ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fail
}

// presence returns the sessions in its map.
type presence struct {
	mu       sync.Mutex
	sessions map[[2]string][]session.Info
	goodbyes []string
	partial  bool  // a node does not answer
	fail     error // none does
}

func (p *presence) connect(app, recipient string, s session.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := [2]string{app, recipient}
	p.sessions[at] = append(p.sessions[at], s)
}

func (p *presence) Sessions(_ context.Context, app string, recipients []string) (live [][]session.Info, partial bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range recipients {
		live = append(live, p.sessions[[2]string{app, r}])
	}
	return live, p.partial, p.fail
}

func (p *presence) Disconnect(_ context.Context, app, recipient, reason string) (n int, partial bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := [2]string{app, recipient}
	n = len(p.sessions[at])
	for range n {
		p.goodbyes = append(p.goodbyes, reason)
	}
	delete(p.sessions, at)
	return n, p.partial, p.fail
}

// Slowest lists the sessions with unacknowledged notifications; the fake always gives 1 as the position of the oldest one.
func (p *presence) Slowest(_ context.Context, app string, _ session.Order, n int) (lags []session.Lag, partial bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, infos := range p.sessions {
		for _, s := range infos {
			if at[0] == app && s.Unacked > 0 && len(lags) < n {
				lags = append(lags, session.Lag{Info: s, Recipient: at[1], Oldest: 1, Queued: 17})
			}
		}
	}
	return lags, p.partial, p.fail
}

func (p *presence) Live() int                                     { return len(p.sessions) }
func (p *presence) Counts() (delivered, redelivered, acks uint64) { return 7, 1, 6 }

// events is an in-memory event log.
type events struct {
	mu   sync.Mutex
	all  []event.Event
	more chan struct{} // closed and replaced by Emit
	fail error
}

func newEvents() *events { return &events{more: make(chan struct{})} }

func (l *events) Emit(evs []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range evs {
		e.ID = uint64(len(l.all) + 1)
		l.all = append(l.all, e)
	}
	close(l.more)
	l.more = make(chan struct{})
}

func (l *events) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.all))
}

func (l *events) Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []event.Event, last uint64, err error) {
	for {
		l.mu.Lock()
		more, fail := l.more, l.fail
		last = since
		for _, e := range l.all[min(since, uint64(len(l.all))):] {
			if len(evs) == limit {
				break
			}
			last = e.ID
			if e.App == app {
				evs = append(evs, e)
			}
		}
		l.mu.Unlock()
		if fail != nil {
			return nil, since, fail
		}
		if len(evs) > 0 || !wait {
			return evs, last, nil
		}
		select {
		case <-ctx.Done():
			return nil, last, ctx.Err()
		case <-more:
		}
	}
}
