package tracing

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// maxTold limits the copies in a message to other nodes: with the longest names and states the message has 128 KB.
const maxTold = 128

// told is the message that nodes send each other.
type told struct {
	Followed []Kept `json:"followed,omitempty"`
	Ended    []Copy `json:"ended,omitempty"`
}

// TellOthers sets the function that sends other nodes the copies that are traced and those that have ended, in the order of
// commits. tell must not wait.
func (t *Tracer) TellOthers(tell func(body []byte)) { t.others.Store(&tell) }

// tell informs other nodes, before they receive the stored copies.
func (t *Tracer) tell(followed []Kept, ended []Copy) {
	tell := t.others.Load()
	if tell == nil {
		return
	}
	send := func(what told) {
		if body, err := json.Marshal(what); err == nil { // of these none fails
			(*tell)(body)
		}
	}
	for part := range slices.Chunk(followed, maxTold) {
		send(told{Followed: part})
	}
	for part := range slices.Chunk(ended, maxTold) {
		send(told{Ended: part})
	}
}

// Heard handles a message of another node: this node then traces the copies that are traced there.
func (t *Tracer) Heard(body []byte) error {
	var what told
	if err := json.Unmarshal(body, &what); err != nil {
		return fmt.Errorf("read which copies another node follows: %w", err)
	}
	now := t.cfg.Now()
	for i := range what.Followed {
		t.join(&what.Followed[i], now)
		t.caughtUp(what.Followed[i].Copy, now)
	}
	for _, c := range what.Ended {
		t.ended(c, now)
	}
	return nil
}

// join begins to trace a copy that another node traces.
func (t *Tracer) join(k *Kept, now time.Time) {
	span := trace.SpanContextFromContext(parent(k.Parent, k.State))
	if !span.IsSampled() || !k.Until.After(now) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.followed[k.Copy] != nil:
	case len(t.followed) >= maxFollowed:
		t.full.Add(1)
	default:
		t.followed[k.Copy] = &followed{span: span, until: k.Until, kept: true}
		t.open.Add(1)
		t.add[k.Copy] = *k
		delete(t.drop, k.Copy)
		t.touch()
	}
}

// ended limits the tracing of an ended copy to a moment, until the hooks have reported its end. It returns nil if the copy is not traced.
func (t *Tracer) ended(c Copy, now time.Time) *followed {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.followed[c]
	if f != nil {
		f.until = now.Add(lingers)
		t.unkeep(c, f)
	}
	return f
}
