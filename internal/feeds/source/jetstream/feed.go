package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

const (
	perFetch    = 500                      // messages of one request
	fetchBytes  = 4 << 20                  // bytes of one request's messages
	fetchWithin = jetstream.DefaultExpires // a request
	fullAgain   = 3 * time.Second          // a message whose mailbox is full is delivered again
	earlyAgain  = time.Second              // pause of requests while messages are awaited that were delivered to a former reader
	unseen      = 10 * time.Second         // a waiting message that was not delivered again for so long is gone
	lookEvery   = 2 * time.Second          // at the consumer
	noteEvery   = 10 * time.Second         // how far the source has come
	mostKept    = 64 << 20                 // bytes of messages that wait for others
	slow        = time.Second              // storing that takes longer is no reason to think that messages are gone
	mostPatient = 30 * time.Second         // for messages of a former reader
)

// feed reads a stream.
type feed struct {
	t        *source.Target
	c        *conn
	at       *position // nil: the source was never connected
	consumer jetstream.Consumer
	hand     *hand
	queues   *queues
	tries    int // deliveries after which a message whose mailbox is full goes to quarantine; 0: never
	former   former
	looked   time.Time
	noted    time.Time
	done     uint64   // highest sequence that has its outcome
	said     []string // by Detail, beside what waits
	large    bool     // the next message is larger than a request's
}

var _ source.Feed = (*feed)(nil)

// Open implements source.Kind. Everything but the connection is made by Run, which can say what it does.
func (Kind) Open(ctx context.Context, t source.Target) (source.Feed, error) {
	f := &feed{t: &t, hand: newHand(), queues: newQueues()}
	var err error
	if f.tries, err = triesOf(t.Values); err != nil {
		return nil, err
	}
	if f.at, err = readPosition(&t); err != nil {
		return nil, err
	}
	if f.c, err = connect(ctx, &t); err != nil {
		return nil, err
	}
	return f, nil
}

// Finding implements source.Feed.
func (f *feed) Finding() string { return "pull" }

// Close implements source.Feed.
func (f *feed) Close() { f.c.close() }

// Run implements source.Feed.
func (f *feed) Run(outer context.Context, to source.Emitter) error {
	ctx, lost := context.WithCancelCause(outer)
	defer lost(nil)
	defer context.AfterFunc(f.c.life, func() { lost(context.Cause(f.c.life)) })()
	if err := f.find(ctx, to); err != nil {
		return err
	}
	info := f.consumer.CachedInfo()
	f.await(ctx, to, info)
	var wg sync.WaitGroup
	wg.Go(func() { lost(f.hand.beat(ctx, patience(info)/3)) })
	wg.Go(func() { lost(always(func() error { return f.fetch(ctx) })) })
	lost(always(func() error { return f.round(ctx, to) }))
	wg.Wait()
	f.hand.giveBack()
	if outer.Err() == nil { // the consumer may be gone when the source is opened again
		_ = f.noteFloor(outer, to) // fails only as outer ends
	}
	return context.Cause(ctx)
}

// always calls do until it fails.
func always(do func() error) error {
	for {
		if err := do(); err != nil {
			return err
		}
	}
}

// leastPatience bounds how often NATS is told that messages are worked on.
const leastPatience = 300 * time.Millisecond

// patience is how long NATS waits for the outcome of a message.
func patience(info *jetstream.ConsumerInfo) time.Duration {
	return max(info.Config.AckWait, leastPatience)
}

// await has messages wait for those that were delivered to a former reader, which may have been killed.
func (f *feed) await(ctx context.Context, to source.Emitter, info *jetstream.ConsumerInfo) {
	if info.NumAckPending == 0 {
		return
	}
	f.former.begin(info)
	if last := info.Delivered.Last; last != nil && f.t.Now().Sub(*last) > notification.DedupWindow {
		f.said = append(f.said, fmt.Sprintf("%d messages were delivered before, more than %s ago, and have no outcome: what is stored of them comes again", info.NumAckPending, notification.DedupWindow))
		f.t.Log.WarnContext(ctx, "messages of a stream may come twice", "messages", info.NumAckPending)
	}
	to.Detail(f.former.text())
}

// fetch asks for messages until a request is fulfilled or has expired.
func (f *feed) fetch(ctx context.Context) error {
	if err := f.hand.room(ctx); err != nil {
		return err
	}
	if f.former.pauses() && !pause.For(ctx, earlyAgain) {
		return context.Cause(ctx)
	}
	cfg := f.consumer.CachedInfo().Config
	most, bytes := atMost(f.former.left(perFetch), cfg.MaxRequestBatch), atMost(fetchBytes, cfg.MaxRequestMaxBytes)
	// A request ends when NATS says so, behind its last message. A time limit here could pass over messages that are on the way, and later
	// ones would be stored before them.
	within := ctx
	if most := cfg.MaxRequestExpires; most > 0 && most < fetchWithin {
		limited, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		within = limited
	}
	options := []jetstream.FetchOpt{jetstream.FetchContext(within)}
	if f.large {
		most = 1
	} else {
		options = append(options, jetstream.FetchMaxBytes(bytes))
	}
	begun := time.Now()
	batch, err := f.consumer.Fetch(most, options...)
	if err != nil {
		return f.c.explain(err, "ask for messages")
	}
	n := 0
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read what NATS tells of a message: %w", err)
		}
		f.hand.add(&message{Msg: m, seq: meta.Sequence.Stream, tries: int(min(meta.NumDelivered, maxTries+1)), at: meta.Timestamp}) // small
		n++
	}
	f.large = n == 0 && batch.Error() == nil && time.Since(begun) < fetchWithin/2 // nothing but a message that does not fit ends a request early
	return f.refused(batch.Error())
}

// refused returns what the end of a request means.
func (f *feed) refused(err error) error {
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, jetstream.ErrBatchCompleted), errors.Is(err, jetstream.ErrConsumerLeadershipChanged):
		return nil
	case errors.Is(err, jetstream.ErrConsumerDeleted):
		return plainly("the consumer %s was deleted, or its stream", f.at.Consumer)
	}
	return f.c.explain(err, "ask for messages")
}

// atMost applies a limit that somebody has set; 0: none.
func atMost(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// round stores what was delivered.
func (f *feed) round(ctx context.Context, to source.Emitter) error {
	if time.Since(f.looked) >= lookEvery {
		if err := f.look(ctx, to); err != nil {
			return err
		}
	}
	if f.hand.size() > mostKept {
		f.former.end(math.MaxUint64)
	}
	if f.former.over() {
		f.hand.release()
	}
	list, err := f.hand.take(ctx, lookEvery)
	if err != nil {
		return err
	}
	if list = f.stay(list); len(list) > 0 {
		err = f.store(ctx, to, list)
	}
	if err == nil {
		f.hand.done()
	}
	return err
}

// stay has messages that must wait delivered again, and returns the others.
func (f *feed) stay(list []*message) (now []*message) {
	now = list[:0:0]
	storing := make(map[uint64]bool, len(list))
	for _, m := range list {
		if f.former.early(m.seq) {
			f.hand.keep(m)
			continue
		}
		if len(f.queues.waiting) > 0 && (f.tries == 0 || m.tries < f.tries) {
			if to := recipients(m.Data()); f.queues.behind(m.seq, to, storing) {
				f.queues.add(m, to, time.Now())
				_ = m.NakWithDelay(fullAgain) // fails only with the connection
				continue
			}
		}
		storing[m.seq] = true
		now = append(now, m)
	}
	return now
}

// store stores messages, and acknowledges each that has its outcome.
func (f *feed) store(ctx context.Context, to source.Emitter, list []*message) error {
	entries := make([]source.Entry, len(list))
	for i, m := range list {
		entries[i] = f.entry(m)
	}
	begun := time.Now()
	outcomes, err := to.Emit(ctx, entries)
	if err != nil {
		return err
	}
	if took := time.Since(begun); took > slow {
		f.queues.later(took)
	}
	for i, o := range outcomes {
		m := list[i]
		end := m.Ack
		switch {
		case o.Fate == source.Quarantined:
			end = m.Term
		case o.Fate == source.Full && f.tries > 0 && m.tries >= f.tries:
			if err := to.SetAside(ctx, &entries[i], fmt.Errorf("after %d deliveries: %w", m.tries, o.Err)); err != nil {
				return err
			}
			end = m.Term
		case o.Fate == source.Full:
			f.queues.add(m, recipients(m.Data()), time.Now())
			if err := m.NakWithDelay(fullAgain); err != nil {
				return fmt.Errorf("have message %d delivered again: %w", m.seq, err)
			}
			continue
		}
		f.done = max(f.done, m.seq)
		if err := end(); err != nil {
			return fmt.Errorf("acknowledge message %d: %w", m.seq, err)
		}
		f.queues.remove(m.seq)
	}
	return nil
}
