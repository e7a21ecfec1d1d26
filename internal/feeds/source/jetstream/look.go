package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/feeds/source"
)

// former are the messages that were delivered to a reader before this one. New ones wait for them.
type former struct {
	mu    sync.Mutex
	last  uint64 // sequence of the last one; 0: there is none, or all have come
	seen  map[uint64]bool
	count int
	ahead bool      // new ones have come before all of these
	until time.Time // after that, those that have not come do not count any more
}

func (o *former) begin(info *jetstream.ConsumerInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.count, o.ahead, o.seen = info.Delivered.Stream, info.NumAckPending, false, make(map[uint64]bool)
	o.until = time.Now().Add(2*min(patience(info), mostPatient) + fullAgain)
}

// early reports whether a message must wait until all have come: NATS delivers them in the order in which its patience with each ends.
func (o *former) early(seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == 0 {
		return false
	}
	if seq > o.last {
		o.ahead = true
	} else if o.seen[seq] = true; len(o.seen) >= o.count {
		o.last = 0
	}
	return true
}

// pauses reports whether requests bring new messages instead of those that are awaited.
func (o *former) pauses() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last != 0 && o.ahead
}

// end stops waiting when the consumer's floor says that all have their outcome, or after a time.
func (o *former) end(floor uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if floor >= o.last || time.Now().After(o.until) {
		o.last = 0
	}
}

// text says what is awaited; empty: nothing.
func (o *former) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages were delivered before and have no outcome; the others wait until NATS delivers these again", o.count)
}

// over reports whether new messages need not wait any more.
func (o *former) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last == 0
}

// left returns how many messages to ask for.
func (o *former) left(most int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == 0 {
		return most
	}
	return max(min(most, o.count-len(o.seen)), 1)
}

// look asks how far the consumer is, and reports it.
func (f *feed) look(ctx context.Context, to source.Emitter) error {
	f.looked = time.Now()
	var info *jetstream.ConsumerInfo
	err := f.c.ask(ctx, func(ctx context.Context) (err error) {
		info, err = f.consumer.Info(ctx)
		return err
	})
	if err != nil {
		return f.c.explain(err, "read the consumer "+f.at.Consumer)
	}
	f.former.end(info.AckFloor.Stream)
	f.queues.forget(time.Now().Add(-unseen - fullAgain))
	f.report(to, info)
	if f.former.over() {
		to.Caught(ctx)
	}
	if time.Since(f.noted) < noteEvery {
		return nil
	}
	f.noted = time.Now()
	return f.noteFloor(ctx, to)
}

// noteFloor notes up to which sequence all messages have their outcome.
func (f *feed) noteFloor(ctx context.Context, to source.Emitter) error {
	floor := f.done
	for seq := range f.queues.waiting {
		floor = min(floor, seq-1)
	}
	for _, m := range f.hand.all() {
		floor = min(floor, m.seq-1)
	}
	if floor <= f.at.Floor || !f.former.over() {
		return nil
	}
	f.at.Floor = floor
	return f.note(ctx, to)
}

// report says how far the source is behind, and what waits.
func (f *feed) report(to source.Emitter, info *jetstream.ConsumerInfo) {
	lag := source.Lag{Entries: int64(info.NumPending) + int64(info.NumAckPending)} // messages of a stream
	oldest := f.queues.oldest()
	for _, m := range f.hand.all() {
		if oldest.IsZero() || m.at.Before(oldest) {
			oldest = m.at
		}
	}
	if lag.Entries > 0 && !oldest.IsZero() {
		lag.Time = max(f.t.Now().Sub(oldest), 0)
	}
	to.Lag(lag)
	parts := slices.Clone(f.said)
	if text := f.former.text(); text != "" {
		parts = append(parts, text)
	}
	if info.Paused {
		parts = append(parts, fmt.Sprintf("the consumer is paused in NATS for %s", info.PauseRemaining.Round(time.Second)))
	}
	switch n := len(f.queues.waiting); {
	case n > 0 && info.Config.MaxAckPending > 0 && info.NumAckPending >= info.Config.MaxAckPending:
		parts = append(parts, fmt.Sprintf("%d messages wait, since mailboxes are full, and NATS delivers no others (max_ack_pending): set tries, or see to it that their recipients take them", n))
	case n == 1:
		parts = append(parts, "1 message waits, since its mailbox is full, or behind such a one")
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d messages wait, since their mailboxes are full, or behind such ones", n))
	}
	to.Detail(strings.Join(parts, "; "))
}
