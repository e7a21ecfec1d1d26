package godwit

import (
	"sync"
	"time"
)

// outbox collects acknowledgements until the session's writer takes them, so that acknowledgements of a burst share a frame. It outlives
// sessions: if a connection is lost, the next one sends the rest. The number of the listener's jobs limits it.
type outbox struct {
	delay time.Duration // how long acknowledgements wait for others after the last were sent
	full  int           // when this many acknowledgements wait, they are sent at once: half of the window

	mu    sync.Mutex
	acks  []string
	acked time.Time // when some left last
	nacks []nack
	other []*clientFrame // answers
	quiet bool           // an answer waits about which the writer has not been told
	wake  chan struct{}
}

// newOutbox returns an outbox for sessions with this window; 0: the server's default.
func newOutbox(delay time.Duration, window int) *outbox {
	if window == 0 {
		window = usualWindow
	}
	return &outbox{delay: delay, full: max(window/2, 1), wake: make(chan struct{}, 1)}
}

func (o *outbox) ack(id string) {
	o.mu.Lock()
	o.acks = append(o.acks, id)
	n := len(o.acks)
	o.mu.Unlock()
	if n == 1 || n >= o.full { // for the acknowledgements in between, the writer is awake already
		o.signal()
	}
}

func (o *outbox) nack(n nack) {
	o.mu.Lock()
	o.nacks = append(o.nacks, n)
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) reply(r *reply) { o.frame(&clientFrame{Reply: r}) }

func (o *outbox) frame(f *clientFrame) {
	o.mu.Lock()
	o.other = append(o.other, f)
	o.mu.Unlock()
	o.signal()
}

// quietly adds a frame that its caller will send. signalQuiet tells the writer about those that were not.
func (o *outbox) quietly(f *clientFrame) {
	o.mu.Lock()
	o.other, o.quiet = append(o.other, f), true
	o.mu.Unlock()
}

func (o *outbox) signalQuiet() {
	o.mu.Lock()
	quiet := o.quiet
	o.quiet = false
	o.mu.Unlock()
	if quiet {
		o.signal()
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// maxAckIDs is the maximum number of ids in one frame.
const maxAckIDs = 256

// take empties the outbox into frames. Acknowledgements stay while they wait for others, unless something else is sent or all is true;
// again is when they are due.
func (o *outbox) take(all bool) (frames []*clientFrame, again time.Time) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	alone := len(o.acks) > 0 && len(o.nacks)+len(o.other) == 0
	if due := o.acked.Add(o.delay); alone && !all && len(o.acks) < o.full && now.Before(due) {
		return nil, due
	}
	if len(o.acks) > 0 {
		o.acked = now
	}
	for len(o.acks) > 0 {
		n := min(len(o.acks), maxAckIDs)
		frames = append(frames, &clientFrame{Ack: &ids{o.acks[:n:n]}})
		o.acks = o.acks[n:]
	}
	for i := range o.nacks {
		frames = append(frames, &clientFrame{Nack: &o.nacks[i]})
	}
	frames = append(frames, o.other...)
	o.acks, o.nacks, o.other, o.quiet = nil, nil, nil, false
	return frames, time.Time{}
}
