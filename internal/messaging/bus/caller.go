package bus

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/messaging/topic"
)

// Limits of a caller. A message counts with the memory that it occupies.
const (
	maxCallerBytes = 8 << 20
	messageCost    = 256
)

// subscription is a NATS subscription with its listeners.
type subscription struct {
	key    key
	prefix int // length of a subject's part before the app's own, in bytes
	caller *caller
	nats   *nats.Subscription

	listeners atomic.Pointer[[]*listener] // replaced, never altered
	missed    int                         // messages dropped and not reported; guarded by caller.mu
	library   atomic.Int64                // messages that the client library dropped, as far as they were counted
	suspect   atomic.Bool                 // the library dropped messages, and perhaps more since then
}

func (s *subscription) add(of *listener) {
	var list []*listener
	if old := s.listeners.Load(); old != nil {
		list = append(list, *old...)
	}
	list = append(list, of)
	s.listeners.Store(&list)
}

// remove removes a listener and returns how many remain.
func (s *subscription) remove(of *listener) int {
	var list []*listener
	for _, l := range *s.listeners.Load() {
		if l != of {
			list = append(list, l)
		}
	}
	s.listeners.Store(&list)
	return len(list)
}

// Only clients of an external NATS can send faulty messages: the listener of this server refuses them.
var (
	errNoTopic = errors.New("neither a topic nor a request")
	errLarge   = errors.New("message of a topic is too large")
)

// message converts a NATS message to a message within the app.
func (s *subscription) message(m *nats.Msg) (msg topic.Message, err error) {
	msg = topic.Message{Subject: m.Subject[s.prefix:], Header: topic.Header(m.Header), Data: m.Data}
	if isInbox(m.Reply) {
		msg.Reply = m.Reply
	}
	name, isTopic := topic.CutTopic(msg.Subject)
	ok := isTopic
	if !isTopic {
		name, ok = topic.CutRequest(msg.Subject)
	}
	switch {
	case !ok || topic.CheckName("", name) != nil:
		return msg, errNoTopic
	case isTopic && len(m.Data) > topic.MaxData:
		return msg, errLarge
	}
	return msg, nil
}

// droppedByLibrary is how many messages the client library dropped since the last call.
func (s *subscription) droppedByLibrary() int {
	s.suspect.Store(true)
	total, err := s.nats.Dropped()
	if err != nil {
		return 0 // the subscription has ended
	}
	return int(int64(total) - s.library.Swap(int64(total)))
}

// caller calls listeners, one after the other.
type caller struct {
	counts *counts
	bytes  atomic.Int64 // of messages that are queued or in the hands of listeners

	mu    sync.Mutex
	queue []item
	spare []item          // memory of the queue before, for the next one
	short []*subscription // subscriptions that lost messages after their last item in the queue
	wake  chan struct{}
}

// item is a message with the number of messages lost before it, or only that number.
type item struct {
	of     *subscription
	missed int
	msg    topic.Message
}

// keptRoom is how many messages an empty caller keeps memory for.
const keptRoom = 1024

func newCaller(c *counts) *caller { return &caller{counts: c, wake: make(chan struct{}, 1)} }

func cost(m *topic.Message) int64 { return int64(messageCost + len(m.Subject) + len(m.Data)) }

// put queues a message, or drops it if too many bytes wait already.
func (l *caller) put(s *subscription, m topic.Message) {
	missed := 0
	if s.suspect.Load() {
		missed = s.droppedByLibrary()
		s.suspect.Store(false)
	}
	n := cost(&m)
	l.mu.Lock()
	l.miss(s, missed)
	if l.bytes.Load()+n > maxCallerBytes {
		l.miss(s, 1)
	} else {
		l.bytes.Add(n)
		l.queue = append(l.queue, item{s, s.missed, m})
		s.missed = 0
	}
	l.mu.Unlock()
	l.stir()
}

// drop records messages that were lost before they reached the caller.
func (l *caller) drop(s *subscription, n int) {
	l.mu.Lock()
	l.miss(s, n)
	l.mu.Unlock()
	l.stir()
}

func (l *caller) miss(s *subscription, n int) {
	if n == 0 {
		return
	}
	if s.missed == 0 {
		l.short = append(l.short, s)
	}
	s.missed += n
	l.counts.dropped.Add(uint64(n))
}

func (l *caller) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *caller) run(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-l.wake:
			runtime.Gosched() // the mailbox goes first
			l.handOn(l.take(), done)
		}
	}
}

// take takes the queue, followed by the losses that no message follows.
func (l *caller) take() []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.queue
	for _, s := range l.short {
		if s.missed > 0 {
			taken = append(taken, item{of: s, missed: s.missed})
			s.missed = 0
		}
	}
	l.queue, l.spare, l.short = l.spare[:0], nil, nil
	return taken
}

func (l *caller) handOn(taken []item, done chan struct{}) {
	for i := range taken {
		select {
		case <-done:
			return
		default:
		}
		it := &taken[i]
		for _, to := range *it.of.listeners.Load() {
			if it.missed > 0 {
				to.lost(it.missed)
			}
			if it.msg.Subject != "" {
				to.got(it.msg)
			}
		}
		if it.msg.Subject != "" {
			l.bytes.Add(-cost(&it.msg))
		}
	}
	clear(taken)
	if cap(taken) <= keptRoom {
		l.mu.Lock()
		l.spare = taken
		l.mu.Unlock()
	}
}
