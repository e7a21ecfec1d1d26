package pubsub

import (
	"encoding/base64"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/encoded"
	"godwit.dev/godwit/internal/notify/frame"
)

// fan passes an app's messages to the sessions that subscribe to them. One goroutine handles one message after the other while messages are
// waiting, so they keep the order in which they were published.
type fan struct {
	svc *Service
	app string

	mu     sync.Mutex
	feeds  map[string]*feed // by pattern; a feed with a queue belongs to a single session
	counts map[tallied]*tally
	closed bool

	waiting waiting
	members []*subscriber // reused by the goroutine
}

// waiting holds the messages that wait for the goroutine.
type waiting struct {
	mu      sync.Mutex
	items   []item
	bytes   int
	short   []*feed // those with messages dropped since
	running bool
	closed  bool
}

// item is a message for the subscribers of a pattern, or a number of lost messages.
type item struct {
	feed *feed
	post *post
	lost int
}

// post is a message with its encodings, one for each format in use.
type post struct {
	frame.Message
	forms encoded.Forms
	trace *followed // nil: nobody traces it
}

// followed is the trace of a message.
type followed struct {
	parent string // the publisher's traceparent
	begun  time.Time
	sent   atomic.Int32 // how many sessions it was written to
}

// follow returns the trace of a message, if there is one.
func (f *fan) follow(m *topic.Message) *followed {
	if f.svc.cfg.Tracer == nil {
		return nil
	}
	for name, values := range m.Header {
		if strings.EqualFold(name, traceparent) && len(values) > 0 {
			return &followed{parent: values[0], begun: f.svc.cfg.Tracer.Now()}
		}
	}
	return nil
}

func (p *post) encoded(f frame.Format) []byte {
	if b := p.forms.Get(f.Key()); b != nil {
		return b
	}
	return p.forms.Add(f.Key(), frame.EncodeMessage(f, &p.Message))
}

// got receives a message from the bus. It does not wait: if there is no room, it drops and counts the message.
func (f *fan) got(to *feed, m topic.Message) {
	name, ok := topic.CutTopic(m.Subject)
	if !ok {
		return
	}
	w := &f.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	forMQTT := propertiesOf(m.Header)
	size := messageCost + len(m.Subject) + len(m.Data) + len(forMQTT)
	if w.bytes+size > maxWaiting {
		w.miss(to, 1)
	} else {
		w.bytes += size
		p := &post{Message: frame.Message{Topic: name, ContentType: m.Header.Get(contentType), Data: m.Data, Kept: m.Header.Get(kept) != "", MQTT: forMQTT, QoS: qosOf(m.Header)}, trace: f.follow(&m)}
		w.items = append(w.items, item{feed: to, post: p})
	}
	to.tally.messages.Add(1)
	f.stir()
}

// propertiesOf returns what a message has for MQTT clients. A NATS client may have written anything there: what is no base64 is left out.
func propertiesOf(h topic.Header) string {
	text := h.Get(mqtt)
	if text == "" {
		return ""
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(b)
}

// qosOf returns the QoS of an MQTT publisher. A NATS client may have written anything there: what is none counts as 0.
func qosOf(h topic.Header) byte {
	switch h.Get(qos) {
	case "1":
		return 1
	case "2":
		return 2
	default:
		return 0
	}
}

// lost receives from the bus the number of messages of a pattern that the bus had to drop.
func (f *fan) lost(of *feed, n int) {
	w := &f.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = append(w.items, item{feed: of, lost: n})
	f.stir()
}

func (w *waiting) miss(of *feed, n int) {
	if of.missed == 0 {
		w.short = append(w.short, of)
	}
	of.missed += n
}

// stir starts the goroutine if it is not running. f.waiting.mu is held.
func (f *fan) stir() {
	if !f.waiting.running && !f.waiting.closed {
		f.waiting.running = true
		f.svc.running.Go(f.run)
	}
}

func (f *fan) run() {
	var done []item
	for {
		runtime.Gosched() // the mailbox goes first
		f.gather()
		items := f.take(done)
		if len(items) == 0 {
			return
		}
		done = items
		for len(items) > 0 && f.svc.ctx.Err() == nil {
			n := 1
			for n < len(items) && items[n].feed == items[0].feed {
				n++
			}
			f.spread(items[:n])
			items = items[n:]
		}
	}
}

// Messages that are published in a row come to the fan one after the other, a few microseconds apart. To many sessions each costs far more than that.
const (
	gatherFor    = 32                     // sessions for which a message waits for those right behind it
	gatherTurns  = 40                     // turns of the scheduler since the last one came
	gatherMost   = 256                    // messages
	gatherWithin = 200 * time.Microsecond // on a busy machine a turn takes long
)

// gather waits for messages that are right behind the first one.
func (f *fan) gather() {
	seen := f.waiting.forMany()
	if seen == 0 {
		return
	}
	begun := time.Now()
	for turn := 0; seen < gatherMost && turn < gatherTurns && time.Since(begun) < gatherWithin; turn++ {
		runtime.Gosched()
		if n := f.waiting.count(); n > seen {
			seen, turn = n, 0
		}
	}
}

func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.items)
}

// forMany returns how many messages wait if the first one goes to many sessions, and else 0.
func (w *waiting) forMany() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.items) == 0 || w.items[0].feed.count() < gatherFor {
		return 0
	}
	return len(w.items)
}

// take removes all waiting items, followed by the counts of messages dropped meanwhile for lack of room. It uses the memory of done for the
// next items.
func (f *fan) take(done []item) []item {
	clear(done)
	if cap(done) > keepListed {
		done = nil
	}
	w := &f.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	items := w.items
	for _, of := range w.short {
		items = append(items, item{feed: of, lost: of.missed})
		of.missed = 0
	}
	w.items, w.bytes, w.short = done[:0], 0, w.short[:0]
	w.running = len(items) > 0
	return items
}

// spread sends consecutive messages of one pattern to all its subscribers: many messages leave in one system call.
func (f *fan) spread(items []item) {
	of := items[0].feed
	f.members = of.listed(f.members[:0])
	f.offer(of, items)
	clear(f.members)
	if cap(f.members) > keepListed {
		f.members = nil
	}
	for i := range items {
		if p := items[i].post; p != nil && p.trace != nil && p.trace.sent.Load() > 0 {
			f.svc.cfg.Tracer.Spread(f.app, p.Topic, p.trace.parent, p.trace.begun, int(p.trace.sent.Load()))
		}
	}
}

// spreadFrom is the number of sessions from which a second goroutine pays.
const spreadFrom = 128

// offer sends messages to the members: on machines with four cores or more several goroutines do, each to members of its own. It returns when all have them, so
// that each member gets messages in their order.
func (f *fan) offer(of *feed, items []item) {
	all := f.members
	parts := min(f.svc.cfg.Spreaders, len(all)/spreadFrom)
	if parts < 2 {
		offerEach(of, items, all)
		return
	}
	var others sync.WaitGroup
	each := (len(all) + parts - 1) / parts
	for part := range slices.Chunk(all[each:], each) {
		others.Go(func() { offerEach(of, items, part) })
	}
	offerEach(of, items, all[:each])
	others.Wait()
}

func offerEach(of *feed, items []item, to []*subscriber) {
	for _, m := range to {
		m.offer(of, items)
	}
}

// keepListed is the number of sessions, and of messages, for which a fan keeps memory.
const keepListed = 1 << 14

// join subscribes a session to a pattern. Sessions share one subscription of the bus for each pattern, except in queues, where each session
// is a member with its own subscription. The caller holds the session's lock.
func (f *fan) join(s *subscriber, pattern, queue string) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, topic.ErrUnavailable
	}
	of := f.feeds[pattern]
	if queue != "" {
		of = nil
	}
	if of == nil {
		of = &feed{fan: f, pattern: pattern, queue: queue, wild: isWild(pattern), tally: f.tally(pattern, queue)}
		stop, err := f.svc.bus.Subscribe(f.app, topic.Topic(pattern), queue,
			func(m topic.Message) { f.got(of, m) }, func(n int) { f.lost(of, n) })
		if err != nil {
			f.forget(of)
			return nil, err
		}
		of.stop = stop
		if queue == "" {
			f.feeds[pattern] = of
		}
	}
	of.add(s)
	of.tally.sessions++
	f.svc.counts.subscriptions.Add(1)
	return of, nil
}

// leave undoes join. over means that the session ends, so all its other subscriptions end too; the session is already marked as over.
func (f *fan) leave(s *subscriber, of *feed, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.svc.counts.subscriptions.Add(-1)
	of.tally.sessions--
	f.forget(of)
	if of.remove(s, over) > 0 {
		return
	}
	if f.feeds[of.pattern] == of {
		delete(f.feeds, of.pattern)
	}
	of.stop()
}

// close ends the remaining subscriptions.
func (f *fan) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.waiting.mu.Lock()
	f.waiting.closed = true
	f.waiting.mu.Unlock()
	for _, of := range f.feeds {
		of.stop()
	}
	f.feeds = nil
}
