package mailboxdb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// TestSessionsKeepTheOrderOfEachRecipient: 10,000 sessions on the real store and mailbox, with publishes to one and to many, some without
// acknowledgement, replacements and recalls. See "What may happen in which order" in the DESIGN.md of package session.
func TestSessionsKeepTheOrderOfEachRecipient(t *testing.T) {
	inShards(t, 40, 1000, func(t *testing.T, tellers int, more func(int) bool) {
		w := newOrderWorld(t, tellers)
		var publishers sync.WaitGroup
		for p := range 8 {
			publishers.Go(func() {
				for n := 0; more(n); n++ {
					w.publish(fmt.Sprint("n", p, "-", n), n)
				}
			})
		}
		publishers.Wait()
		eventually.True(t, "everything is settled", func() bool { return w.store.Stats().Pending == 0 })
		w.close()
		for _, l := range w.lines {
			l.settled(w.events)
		}
	})
}

// orderWorld has a session for each recipient.
type orderWorld struct {
	t      *testing.T
	store  *judgedStore
	mail   *mailbox.Mailbox
	hub    *session.Hub
	events *orderEvents
	names  []string
	lines  []*line
	close  func()
}

// judgedStore lets a judge look at what the mailbox is told.
type judgedStore struct {
	mailbox.Store
	judge *judge
}

func (s *judgedStore) Observe(obs mailbox.Observer) { s.Store.Observe(bothObservers{s.judge, obs}) }

type bothObservers struct{ first, second mailbox.Observer }

func (o bothObservers) Committed(b *mailbox.Batch) {
	o.first.Committed(b)
	o.second.Committed(b)
}

func newOrderWorld(t *testing.T, tellers int) *orderWorld {
	cfg := config()
	cfg.Tellers = tellers
	w := &orderWorld{t: t, names: crowdOf("r"), events: &orderEvents{of: make(map[string]*[]event.Type)}}
	j := &judge{t: t, of: make(map[string]*told)}
	for _, r := range w.names {
		j.of[r] = &told{open: make(map[string]bool)}
	}
	w.store = &judgedStore{Store: openAt(t, filepath.Join(t.TempDir(), "m.db"), cfg), judge: j}
	log := slog.New(slog.DiscardHandler)
	w.mail = mailbox.New(mailbox.Config{Store: w.store, Events: w.events, Log: log})
	w.hub = session.NewHub(session.Config{Store: w.store, Mailbox: w.mail, Verifier: everybody{}, Events: w.events, Log: log, Now: w.store.Clock(), Redeliver: time.Hour})
	w.close = sync.OnceFunc(func() {
		if err := w.hub.Close(); err != nil {
			t.Error(err)
		}
		if err := w.store.Store.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.close)
	var welcomed sync.WaitGroup
	welcomed.Add(len(w.names))
	some := make([]chan *line, 16)
	for i := range some {
		some[i] = make(chan *line, len(w.names)) // each line is in it once at most
	}
	for i, r := range w.names {
		l := &line{t: t, recipient: r, welcomed: welcomed.Done, some: some[i%len(some)], seen: make(map[string]bool), gone: make(map[string]bool)}
		w.lines = append(w.lines, l)
		l.s = w.hub.Accept(l, session.Peer{})
		l.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "app", Recipient: r, Heartbeat: 24 * time.Hour}})
	}
	welcomed.Wait()
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for _, lines := range some {
		clients.Go(func() { acknowledge(lines, stop) })
	}
	t.Cleanup(func() { close(stop); clients.Wait() })
	return w
}

// acknowledge acknowledges what clients have got.
func acknowledge(lines <-chan *line, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case l := <-lines:
			l.s.Frame(&frame.Client{Kind: frame.KindAck, IDs: l.unacknowledged()})
		}
	}
}

// unasked begins the ids of notifications that ask for no acknowledgement.
const unasked = "unasked-"

// publish makes the nth publish of a publisher.
func (w *orderWorld) publish(id string, n int) {
	to := []string{w.names[rand.N(len(w.names))]}
	switch {
	case n%8 == 0: // a fan-out
		from := rand.N(len(w.names) - 100)
		to = w.names[from : from+100]
	case n%2 == 0: // the same few again and again
		to = w.names[:1+rand.N(3)]
	}
	if n%5 == 1 {
		id = unasked + id
	}
	a := publishOf(id, 10, to...)
	switch n % 5 {
	case 1:
		a.N.Ack = notification.AckNone
	case 2:
		a.N.CollapseKey = "k"
	}
	if err := w.mail.Append(w.t.Context(), []*mailbox.Append{a}); err != nil {
		w.t.Error(err)
	}
	if n%7 == 0 {
		if _, err := w.mail.Recall(w.t.Context(), "app", id, to[0]); err != nil {
			w.t.Error(err)
		}
	}
}

// everybody is who they say they are.
type everybody struct{}

func (v everybody) Known(c access.Claim) (access.Client, error) {
	return access.Client{App: "app", Recipient: c.Recipient}, nil
}

func (v everybody) Client(_ context.Context, c access.Claim) (access.Client, error) {
	return v.Known(c)
}

// orderEvents keeps the events of each copy in their order.
type orderEvents struct {
	mu sync.Mutex
	of map[string]*[]event.Type // by recipient and notification
}

func (e *orderEvents) Emit(evs []event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range evs {
		key := evs[i].To + " " + evs[i].Note
		list := e.of[key]
		if list == nil {
			list = new([]event.Type)
			e.of[key] = list
		}
		*list = append(*list, evs[i].Type)
	}
}

// line is a client's connection. It checks what it gets.
type line struct {
	t         *testing.T
	recipient string
	welcomed  func()
	some      chan<- *line // gets the line if it has something to acknowledge
	s         *session.Session

	mu   sync.Mutex
	last uint64
	seen map[string]bool // ids that were written
	gone map[string]bool // ids that were recalled
	acks [][]byte        // ids to acknowledge
}

func (l *line) unacknowledged() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.acks
	l.acks = nil
	return ids
}

func (l *line) Format() frame.Format  { return frame.JSON }
func (l *line) Name() string          { return "test" }
func (l *line) Pause()                {}
func (l *line) Resume()               {}
func (l *line) Probe()                {}
func (l *line) Close(g frame.Goodbye) { go l.s.Closed() }

func (l *line) Write(k frame.ServerKind, head, tail []byte) bool {
	switch k {
	case frame.ServerWelcome:
		l.welcomed()
		return true
	case frame.ServerNotification, frame.ServerRecall:
	default:
		return true
	}
	var f struct {
		Notification struct {
			ID  string `json:"id"`
			Seq uint64 `json:"seq"`
		} `json:"notification"`
		Recall struct {
			IDs []string `json:"ids"`
		} `json:"recall"`
	}
	if err := json.Unmarshal(slices.Concat(head, tail), &f); err != nil {
		l.t.Errorf("%s: a frame is no JSON: %v", l.recipient, err)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range f.Recall.IDs {
		l.gone[id] = true
	}
	if n := &f.Notification; k == frame.ServerNotification {
		l.got(n.ID, n.Seq)
	}
	return true
}

// got checks a notification. The caller holds l.mu.
func (l *line) got(id string, seq uint64) {
	switch {
	case l.gone[id]:
		l.t.Errorf("%s: %s comes after its recall", l.recipient, id)
	case l.seen[id]:
		l.t.Errorf("%s: %s comes twice", l.recipient, id)
	case seq <= l.last:
		l.t.Errorf("%s: %d comes after %d", l.recipient, seq, l.last)
	}
	l.seen[id], l.last = true, max(l.last, seq)
	if !strings.HasPrefix(id, unasked) {
		if l.acks = append(l.acks, []byte(id)); len(l.acks) == 1 {
			l.some <- l
		}
	}
}

// settled checks, at the end, that each copy that was written has ended once, and after it was stored.
func (l *line) settled(events *orderEvents) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events.mu.Lock()
	defer events.mu.Unlock()
	for id := range l.seen {
		list := events.of[l.recipient+" "+id]
		if list == nil {
			l.t.Errorf("%s: there is no event of %s", l.recipient, id)
			continue
		}
		ends, stored := 0, slices.Index(*list, event.Stored)
		for i, e := range *list {
			switch e {
			case event.Acked, event.Replaced, event.Recalled:
			case event.Delivered:
				if !strings.HasPrefix(id, unasked) {
					continue // also before "stored": a session that reads its mailbox may find what is not told yet
				}
			default:
				continue
			}
			if ends++; i < stored || stored < 0 {
				l.t.Errorf("%s: %s ends before it is stored: %v", l.recipient, id, *list)
			}
		}
		if ends != 1 {
			l.t.Errorf("%s: %s has %d ends: %v", l.recipient, id, ends, *list)
		}
	}
}
