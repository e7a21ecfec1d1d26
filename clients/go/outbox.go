package godwit

import "sync"

// outbox collects acknowledgements until the session's writer takes them, so that those of a burst share a frame.
// It outlives sessions: what a lost connection did not carry goes out on the next one. It is bounded by the jobs
// a listener holds.
type outbox struct {
	mu    sync.Mutex
	acks  []string
	nacks []nack
	other []*clientFrame // answers
	wake  chan struct{}
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) ack(id string) {
	o.mu.Lock()
	o.acks = append(o.acks, id)
	o.mu.Unlock()
	o.signal()
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

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// maxAckIDs is how many ids one frame carries.
const maxAckIDs = 256

// take empties the outbox into frames.
func (o *outbox) take() []*clientFrame {
	o.mu.Lock()
	defer o.mu.Unlock()
	var frames []*clientFrame
	for len(o.acks) > 0 {
		n := min(len(o.acks), maxAckIDs)
		frames = append(frames, &clientFrame{Ack: &ids{o.acks[:n:n]}})
		o.acks = o.acks[n:]
	}
	for i := range o.nacks {
		frames = append(frames, &clientFrame{Nack: &o.nacks[i]})
	}
	frames = append(frames, o.other...)
	o.acks, o.nacks, o.other = nil, nil, nil
	return frames
}
