package godwit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MessageHandler handles one message of a topic. Messages arrive at most once; after a failure, a message is not sent again.
type MessageHandler func(ctx context.Context, m *Message)

// Topics are a program's subscriptions. Listen(…, Subscriptions(topics)) receives the messages, and subscribes again on every new
// connection. Messages published while there is no connection are missed.
type Topics struct {
	handle    MessageHandler
	onGap     func(n int)
	onRefused func(*SubscriptionError)

	mu      sync.Mutex
	entries []*subscription
	ending  []*subscription // subscriptions to end on this connection
	waiting []incoming      // for the handler
	bytes   int             // of these
	refused []*SubscriptionError
	live    bool          // there is a connection
	wake    func()        // wakes the Listen that uses these topics; nil: none does
	work    chan struct{} // has an element when a message or gap waits for the handler
	moved   chan struct{} // closed when a subscription changes its state
}

// subscription is a pattern with its queue, and its state on this connection.
type subscription struct {
	pattern, queue string
	sent, active   bool
	mark           int // number of the ping whose pong confirms the subscription
	retryAt        time.Time
	retries        backoff
}

// SubscriptionError reports patterns that the server refused for good: the token's topics do not allow them, or the session has too many.
type SubscriptionError struct {
	Topics  []string
	Code    string // forbidden or too_many_topics
	Message string
}

func (e *SubscriptionError) Error() string { return "subscribe: " + e.Message + " (" + e.Code + ")" }

// TopicsOption changes how Topics work.
type TopicsOption func(*Topics)

// OnGap sets a function that is called, before the next message, with the number of messages dropped because this program or its connection
// was too slow.
func OnGap(f func(n int)) TopicsOption { return func(t *Topics) { t.onGap = f } }

// OnRefused sets a function that is called with patterns that the server refused. They are removed. Without it, Listen's OnError receives
// the error.
func OnRefused(f func(*SubscriptionError)) TopicsOption { return func(t *Topics) { t.onRefused = f } }

// NewTopics returns Topics that pass their messages to handle, one after the other. A session gets each message once, however many of its
// patterns match.
func NewTopics(handle MessageHandler, opts ...TopicsOption) *Topics {
	t := &Topics{handle: handle, work: make(chan struct{}, 1), moved: make(chan struct{})}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

// Subscriptions makes Listen receive the messages of topics. Only one Listen at a time may use them. With a nil notification handler,
// Listen ignores the recipient's notifications.
func Subscriptions(topics *Topics) ListenOption { return func(o *listenOptions) { o.topics = topics } }

// Subscribe subscribes to topics or topic patterns: "*" stands for any one token, a final ">" for one or more. It may
// be called at any time and leaves existing subscriptions as they are.
func (t *Topics) Subscribe(patterns ...string) error { return t.subscribe("", patterns) }

// SubscribeQueue is Subscribe as a member of a queue: among the subscribers to a pattern with the same queue, one gets each message.
func (t *Topics) SubscribeQueue(queue string, patterns ...string) error {
	if err := checkName("queue", queue); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return t.subscribe(queue, patterns)
}

func (t *Topics) subscribe(queue string, patterns []string) error {
	for _, p := range patterns {
		if err := checkPattern(p); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	t.change(func() {
		for _, p := range patterns {
			t.ending = slices.DeleteFunc(t.ending, func(e *subscription) bool { return e.is(p, queue) })
			if !slices.ContainsFunc(t.entries, func(e *subscription) bool { return e.is(p, queue) }) {
				t.entries = append(t.entries, &subscription{pattern: p, queue: queue, retries: backoff{base: connectBase, most: connectMost}})
			}
		}
	})
	return nil
}

// Unsubscribe ends subscriptions. Messages under way are still delivered.
func (t *Topics) Unsubscribe(patterns ...string) { t.unsubscribe("", patterns) }

// UnsubscribeQueue ends what SubscribeQueue began.
func (t *Topics) UnsubscribeQueue(queue string, patterns ...string) { t.unsubscribe(queue, patterns) }

func (t *Topics) unsubscribe(queue string, patterns []string) {
	t.change(func() {
		t.entries = slices.DeleteFunc(t.entries, func(e *subscription) bool {
			gone := e.queue == queue && slices.Contains(patterns, e.pattern)
			if gone && e.sent {
				t.ending = append(t.ending, e)
			}
			return gone
		})
	})
}

func (e *subscription) is(pattern, queue string) bool {
	return e.pattern == pattern && e.queue == queue
}

// Active waits until all subscriptions are in effect: later messages are delivered, as long as the connection lasts.
func (t *Topics) Active(ctx context.Context) error {
	for {
		t.mu.Lock()
		moved := t.moved
		active := t.live && !slices.ContainsFunc(t.entries, func(e *subscription) bool { return !e.active })
		t.mu.Unlock()
		if active {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for subscriptions: %w", context.Cause(ctx))
		}
	}
}

// change changes subscriptions and informs the connection.
func (t *Topics) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	close(t.moved)
	t.moved = make(chan struct{})
	if t.wake != nil {
		t.wake()
	}
}

// attach connects the topics with a Listen.
func (t *Topics) attach(wake func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake != nil {
		return errors.New("the topics are used by another Listen")
	}
	t.wake = wake
	return nil
}

func (t *Topics) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake = nil
}

// welcomed begins a connection, on which nothing is subscribed yet.
func (t *Topics) welcomed() { t.connection(true) }

func (t *Topics) lost() { t.connection(false) }

func (t *Topics) connection(live bool) {
	t.change(func() {
		t.live, t.ending = live, nil
		for _, e := range t.entries {
			e.sent, e.active, e.retryAt = false, false, time.Time{}
		}
	})
}

// maxPatterns is the maximum number of patterns in one frame.
const maxPatterns = 256

// take returns the frames to send now, and the time of the next ones; zero: unknown until something happens. pings is the number of pings
// sent so far: the frames end with one more.
func (t *Topics) take(pings int, ping func() *clientFrame) (frames []*clientFrame, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.ending {
		frames = append(frames, &clientFrame{Unsubscribe: &subscribe{[]string{e.pattern}, e.queue}})
	}
	t.ending = nil
	now := time.Now()
	byQueue := make(map[string]*subscribe)
	asked := false
	for _, e := range t.entries {
		switch {
		case e.sent:
			continue
		case e.retryAt.After(now):
			if again.IsZero() || e.retryAt.Before(again) {
				again = e.retryAt
			}
			continue
		}
		s := byQueue[e.queue]
		if s == nil || len(s.Topics) == maxPatterns {
			s = &subscribe{Queue: e.queue}
			byQueue[e.queue] = s
			frames = append(frames, &clientFrame{Subscribe: s})
		}
		s.Topics = append(s.Topics, e.pattern)
		e.sent, e.mark, asked = true, pings+1, true
	}
	if asked {
		frames = append(frames, ping()) // its pong confirms that the subscriptions are in effect
	}
	return frames, again
}

// pong handles the answer to the nth ping.
func (t *Topics) pong(n int) {
	t.change(func() {
		for _, e := range t.entries {
			if e.sent && n >= e.mark {
				e.active = true
				e.retries.n = 0
			}
		}
	})
}

// refuse handles an error of the server; false: the error is about something else.
func (t *Topics) refuse(e *frameError) bool {
	if e.Field != "topics" || len(e.Refused) == 0 {
		return false
	}
	t.change(func() {
		if e.Code == "unavailable" {
			for _, s := range t.entries {
				if s.sent && slices.Contains(e.Refused, s.pattern) {
					s.sent, s.active, s.retryAt = false, false, time.Now().Add(s.retries.next())
				}
			}
			return
		}
		t.entries = slices.DeleteFunc(t.entries, func(s *subscription) bool { return s.sent && slices.Contains(e.Refused, s.pattern) })
		t.refused = append(t.refused, &SubscriptionError{e.Refused, e.Code, e.Message})
	})
	t.stir()
	return true
}
