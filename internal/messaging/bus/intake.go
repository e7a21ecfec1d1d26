package bus

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/messaging/topic"
)

// inRow is how many messages may wait between the client library and the pump. The pump removes them faster than they arrive, but may have
// to wait for a processor: the room is for some milliseconds of the smallest messages, and takes 64 KB for each app in use.
const inRow = 8192

// intake passes messages from one connection to subscribers. All subscriptions share one channel, which costs a quarter of a callback each.
// A pump empties it into two callers, so that a burst on topics delays no request.
type intake struct {
	counts  *counts
	ch      chan *nats.Msg
	callers [2]*caller // topics, all else

	mu     sync.RWMutex
	shared map[key]*subscription // those without a queue
	byNATS map[*nats.Subscription]*subscription
	pump   sync.Once
	closed bool
	done   chan struct{}
	ended  sync.WaitGroup
}

// key identifies a subscription.
type key struct{ app, pattern, queue string }

// listener is one call of Subscribe.
type listener struct {
	got  func(topic.Message)
	lost func(n int)
}

func newIntake(c *counts) *intake {
	return &intake{
		counts: c, shared: make(map[key]*subscription), byNATS: make(map[*nats.Subscription]*subscription), done: make(chan struct{}),
	}
}

// subscribe adds a listener. Listeners without a queue share one subscription of a pattern.
func (in *intake) subscribe(nc *nats.Conn, k key, of *listener) (stop func(), err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, errClosed
	}
	in.pump.Do(in.start)
	s := in.shared[k]
	if s == nil {
		if s, err = in.add(nc, k); err != nil {
			return nil, problem(err)
		}
	}
	s.add(of)
	return func() { in.unsubscribe(s, of) }, nil
}

func (in *intake) add(nc *nats.Conn, k key) (*subscription, error) {
	s := &subscription{key: k, prefix: len(prefix(k.app)), caller: in.callers[1]}
	if strings.HasPrefix(k.pattern, "t.") {
		s.caller = in.callers[0]
	}
	var err error
	if k.queue == "" {
		s.nats, err = nc.ChanSubscribe(subject(k.app, k.pattern), in.ch)
	} else {
		s.nats, err = nc.ChanQueueSubscribe(subject(k.app, k.pattern), k.queue, in.ch)
	}
	if err != nil {
		return nil, err
	}
	in.byNATS[s.nats] = s
	if k.queue == "" {
		in.shared[k] = s
	}
	return s, nil
}

func (in *intake) unsubscribe(s *subscription, of *listener) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.key.queue != "" {
		in.drain(s)
		return
	}
	if s.remove(of) > 0 {
		return
	}
	if in.shared[s.key] == s {
		delete(in.shared, s.key)
	}
	delete(in.byNATS, s.nats)
	_ = s.nats.Unsubscribe() // an error means that the connection is closed, and the subscription with it
}

// drain ends the membership of a queue. Messages that the server sent to this member before it learnt of the end go to no other member, so
// they are still delivered: an empty message marks the end.
func (in *intake) drain(s *subscription) {
	last := &nats.Msg{Sub: s.nats}
	s.nats.SetClosedHandler(func(string) {
		go func() { // the library calls this with locks held, and the channel may be full
			select {
			case in.ch <- last:
			case <-in.done:
			}
		}()
	})
	if s.nats.Drain() != nil { // the connection is closed, and the subscription with it
		delete(in.byNATS, s.nats)
	}
}

func (in *intake) forget(s *nats.Subscription) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.byNATS, s)
}

// start starts the pump and the callers, at the first subscription.
func (in *intake) start() {
	in.ch = make(chan *nats.Msg, inRow)
	for i := range in.callers {
		in.callers[i] = newCaller(in.counts)
		in.ended.Go(func() {
			stage.Mark("caller of topics", i)
			in.callers[i].run(in.done)
		})
	}
	in.ended.Go(in.take)
}

func (in *intake) take() {
	for {
		select {
		case <-in.done:
			return
		case m := <-in.ch:
			if len(in.ch) == 0 {
				runtime.Gosched() // messages that arrive together are delivered together, and work on the mailbox comes first
			}
			in.mu.RLock()
			s := in.byNATS[m.Sub]
			in.mu.RUnlock()
			if s == nil {
				continue // unsubscribed meanwhile
			}
			if m.Subject == "" {
				in.forget(m.Sub)
				continue
			}
			msg, err := s.message(m)
			switch {
			case err == nil:
				in.counts.received.Add(1)
				s.caller.put(s, msg)
			case errors.Is(err, errLarge):
				in.counts.refused.Add(1)
				s.caller.drop(s, 1) // subscribers get a report of the gap
			default:
				in.counts.refused.Add(1)
			}
		}
	}
}

// slow is the client library's error handler: the library calls it once for all messages that it dropped in a row because the channel was
// full.
func (in *intake) slow(_ *nats.Conn, of *nats.Subscription, _ error) {
	if of == nil {
		return
	}
	in.mu.RLock()
	s := in.byNATS[of]
	in.mu.RUnlock()
	if s != nil {
		s.caller.drop(s, s.droppedByLibrary())
	}
}

func (in *intake) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	close(in.done)
	in.ended.Wait()
}
