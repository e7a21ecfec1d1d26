package godwit

import "context"

// Limits of the messages that wait for the handler. Further ones are dropped and reported as a gap.
const (
	maxWaitingMessages = 4096
	maxWaitingBytes    = 8 << 20
)

// incoming is a message for the handler, or a number of dropped messages.
type incoming struct {
	message *Message
	gap     int
}

// message queues a message or a gap for the handler. The connection does not wait for the handler.
func (t *Topics) message(m *message) {
	t.mu.Lock()
	last := len(t.waiting) - 1
	full := len(t.waiting) >= maxWaitingMessages || t.bytes+len(m.Data) > maxWaitingBytes
	switch gap := m.gap; {
	case gap == 0 && !full:
		t.waiting = append(t.waiting, incoming{message: &m.Message})
		t.bytes += len(m.Data)
	case last >= 0 && t.waiting[last].message == nil:
		t.waiting[last].gap += max(gap, 1)
	default:
		t.waiting = append(t.waiting, incoming{gap: max(gap, 1)})
	}
	t.mu.Unlock()
	t.stir()
}

// stir wakes the handler's goroutine.
func (t *Topics) stir() {
	select {
	case t.work <- struct{}{}:
	default:
	}
}

// run calls the handler until ctx ends; it passes refusals to report unless OnRefused is set.
func (t *Topics) run(ctx context.Context, report func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.work:
		}
		t.mu.Lock()
		waiting, refused := t.waiting, t.refused
		t.waiting, t.refused, t.bytes = nil, nil, 0
		t.mu.Unlock()
		for _, e := range refused {
			if t.onRefused != nil {
				t.onRefused(e)
			} else {
				report(e)
			}
		}
		for _, in := range waiting {
			switch {
			case ctx.Err() != nil:
				return
			case in.message != nil:
				t.handle(ctx, in.message)
			case t.onGap != nil:
				t.onGap(in.gap)
			}
		}
	}
}
