package request

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
)

// pool is the state that the workers of one app on this node share.
type pool struct {
	svc *Service
	app string
	out outbox

	mu     sync.RWMutex
	groups map[groupKey]*group
	tree   topic.Tree[*group] // the same, by pattern
}

type groupKey struct{ pattern, queue string }

// group is the workers of this node that serve one pattern for one queue.
type group struct {
	key     groupKey
	members atomic.Pointer[[]*worker] // replaced, never altered
}

func (h *pool) enter(k groupKey, w *worker) *group {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[k]
	if g == nil {
		g = &group{key: k}
		h.groups[k] = g
		h.tree.Insert(k.pattern, g)
	}
	g.set(append(slices.Clone(g.list()), w))
	return g
}

func (h *pool) quit(g *group, w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.set(slices.DeleteFunc(slices.Clone(g.list()), func(o *worker) bool { return o == w }))
	if len(g.list()) == 0 && h.groups[g.key] == g {
		delete(h.groups, g.key)
		h.tree.Remove(g.key.pattern, g)
	}
}

// retire has the app's workers leave their queues.
func (h *pool) retire() {
	h.mu.RLock()
	var all []*worker
	for _, g := range h.groups {
		all = append(all, g.list()...)
	}
	h.mu.RUnlock()
	for _, w := range all {
		w.retire()
	}
}

func (g *group) list() []*worker {
	if p := g.members.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *group) set(list []*worker) { g.members.Store(&list) }

// got handles a request that the bus gave to a member of a group. If that member has no room, because other requests arrived first or it
// had left the queue, another worker of this node gets the request; if none has room, the sender gets an error at once.
func (h *pool) got(g *group, first *worker, m topic.Message) {
	name, ok := topic.CutRequest(m.Subject)
	now := time.Now()
	if !ok || m.Reply == "" {
		h.svc.metrics.unasked()
		return // nobody waits for an answer
	}
	until := deadline(&m, now)
	if !until.After(now) {
		return
	}
	t := &task{request: frameOf(name, &m, until), deadline: until, answer: func(a *Answer, err error) {
		if err != nil {
			h.out.add(outgoing{m.Reply, failure(err)})
		} else {
			h.out.add(outgoing{m.Reply, a.message()})
		}
	}}
	if first.give(t) {
		return
	}
	for _, w := range g.list() {
		if w != first && w.give(t) {
			return
		}
	}
	t.answer(nil, ErrBusy)
}

// members are the workers of one queue that serve a subject.
type members struct {
	queue string
	list  []*worker
}

// serving returns the workers that serve a subject, grouped by queue.
func (h *pool) serving(subject string) (queues []members) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.tree.Match(subject, func(g *group) {
		for i := range queues {
			if q := &queues[i]; q.queue == g.key.queue {
				q.list = slices.Concat(q.list, g.list())
				return
			}
		}
		queues = append(queues, members{g.key.queue, g.list()})
	})
	return queues
}

// give passes a task to any member that has room. False: no member has room.
func (m *members) give(t *task, with *Together) bool {
	first := rand.IntN(len(m.list))
	for i := range m.list {
		if m.list[(first+i)%len(m.list)].share(t, with) {
			return true
		}
	}
	return false
}

// send passes an answer to the bus.
func (h *pool) send(o outgoing) {
	ctx, cancel := context.WithTimeout(context.Background(), sendPatience)
	defer cancel()
	if err := h.svc.bus.Reply(ctx, h.app, o.to, o.message); err != nil {
		h.svc.log.Debug("answer was lost", "app", h.app, "error", err)
	}
}

// sendPatience is how long an answer waits while the bus accepts nothing. The asker gives up at this time at the latest.
const sendPatience = MaxTimeout

type outgoing struct {
	to      string
	message topic.Message
}

// outbox sends answers one after the other, so that no session waits for the bus. The windows of the workers limit its
// length.
type outbox struct {
	send func(outgoing)

	mu      sync.Mutex
	queue   []outgoing
	running bool
	closed  bool
	idle    sync.WaitGroup
}

func (o *outbox) add(x outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.queue = append(o.queue, x)
	if !o.running {
		o.running = true
		o.idle.Go(o.run)
	}
}

func (o *outbox) run() {
	var spare []outgoing
	for {
		o.mu.Lock()
		batch := o.queue
		if o.queue = spare[:0]; len(batch) == 0 {
			o.running = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for _, x := range batch {
			o.send(x)
		}
		clear(batch)
		spare = batch
	}
}

// close waits until all answers are sent.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.idle.Wait()
}
