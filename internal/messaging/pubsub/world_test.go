package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// wires is a bus in memory: when Publish returns, all subscribers have received the message.
type wires struct {
	mu   sync.Mutex
	subs []*wireSub
	down bool
}

type wireSub struct {
	app, pattern, queue string
	got                 func(topic.Message)
	lost                func(int)
	n                   int // messages it got
}

func (w *wires) Publish(_ context.Context, app string, m topic.Message) error {
	w.mu.Lock()
	if w.down {
		w.mu.Unlock()
		return topic.ErrUnavailable
	}
	var to []*wireSub
	least := map[string]*wireSub{} // by queue: the member with the fewest messages
	for _, s := range w.subs {
		switch {
		case s.app != app || !topic.Match(s.pattern, m.Subject):
		case s.queue == "":
			to = append(to, s)
		case least[s.pattern+" "+s.queue] == nil || least[s.pattern+" "+s.queue].n > s.n:
			least[s.pattern+" "+s.queue] = s
		}
	}
	for _, s := range least {
		to = append(to, s)
	}
	for _, s := range to {
		s.n++
	}
	w.mu.Unlock()
	for _, s := range to {
		s.got(m)
	}
	return nil
}

func (w *wires) Subscribe(app, pattern, queue string, got func(topic.Message), lost func(int)) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, topic.ErrUnavailable
	}
	s := &wireSub{app: app, pattern: pattern, queue: queue, got: got, lost: lost}
	w.subs = append(w.subs, s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subs = slices.DeleteFunc(w.subs, func(o *wireSub) bool { return o == s })
	}, nil
}

func (w *wires) patterns() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.subs {
		list = append(list, s.app+" "+s.pattern+" "+s.queue)
	}
	slices.Sort(list)
	return list
}

// client is a session with a connection in memory.
type client struct {
	t      *testing.T
	format frame.Format
	part   session.Part

	mu     sync.Mutex
	got    []string // topics, "gap N", or "error CODE refused"
	raw    [][]byte
	full   bool // writes are refused
	queued int
	corked int
	rows   int // of messages that left together, or alone
}

func (c *client) Format() frame.Format { return c.format }

func (c *client) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

func (c *client) Cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corked++; c.corked == 1 {
		c.rows++
	}
}

func (c *client) Uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corked--; c.corked < 0 {
		c.t.Error("uncorked more often than corked")
	}
}

func (c *client) Send(k frame.ServerKind, head, tail []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return false
	}
	if c.corked == 0 {
		c.rows++
	}
	b := append(slices.Clip(head), tail...)
	if c.format != frame.JSON {
		c.raw = append(c.raw, tail)
		return true
	}
	c.raw = append(c.raw, tail)
	var f struct {
		Message struct {
			Topic string
			Gap   int
		}
		Error struct {
			Code, Field string
			Refused     []string
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		c.t.Errorf("%s: %v", b, err)
	}
	switch {
	case k == frame.ServerError:
		c.got = append(c.got, fmt.Sprintf("error %s %s %s", f.Error.Code, f.Error.Field, f.Error.Refused))
	case f.Message.Gap > 0:
		c.got = append(c.got, fmt.Sprint("gap ", f.Message.Gap))
	default:
		c.got = append(c.got, f.Message.Topic)
	}
	return true
}

func (c *client) blocked(full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = full
}

func (c *client) waits(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = bytes
}

// take returns the frames that arrived since the last call.
func (c *client) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

func (c *client) want(what ...string) {
	c.t.Helper()
	if got := c.take(); !slices.Equal(got, what) {
		c.t.Errorf("got %q, want %q", got, what)
	}
}

func (c *client) say(k frame.Kind, queue string, patterns ...string) {
	f := &frame.Client{Kind: k, Queue: []byte(queue)}
	for _, p := range patterns {
		f.Patterns = append(f.Patterns, []byte(p))
	}
	c.part.Frame(f)
}

func (c *client) subscribe(patterns ...string)   { c.say(frame.KindSubscribe, "", patterns...) }
func (c *client) unsubscribe(patterns ...string) { c.say(frame.KindUnsubscribe, "", patterns...) }

type world struct {
	t   *testing.T
	bus *wires
	svc *Service
}

func inWorld(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		bus := &wires{}
		w := &world{t: t, bus: bus, svc: New(Config{Bus: bus})}
		f(w)
		if err := w.svc.Close(); err != nil {
			t.Error(err)
		}
	})
}

const app = "demo"

// connect makes a session that may subscribe to the allowed patterns, or to all if none are given.
func (w *world) connect(allowed ...string) *client {
	if allowed == nil {
		allowed = []string{">"}
	}
	return w.connectAs(session.Client{App: app, Rights: &session.Rights{Topics: allowed}}, frame.JSON)
}

func (w *world) connectAs(who session.Client, f frame.Format) *client {
	c := &client{t: w.t, format: f}
	c.part = w.svc.Open(w.t.Context(), c, who, false)
	c.part.Join()
	c.part.Start()
	return c
}

func (w *world) publish(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.svc.Publish(w.t.Context(), app, &Message{Topic: name, Data: []byte("x"), ContentType: "text/plain"}); err != nil {
			w.t.Error(err)
		}
	}
}
