package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	maxReported  = 200_000   // most deliveries kept: those of the last seconds of a server with tens of thousands a second
	reportedLast = time.Hour // after this time the deliveries are discarded
)

// Reported holds the first deliveries that the log recorded in the last moments before a crash. The mailbox records a delivery a second
// later, so it may lack them: after a new delivery of such a copy, the log would record a first delivery twice.
type Reported struct {
	left  atomic.Int64
	until time.Time

	mu   sync.Mutex
	apps map[string]map[uint64]struct{} // by Event.Key
}

// Reported reads the first deliveries that the log recorded around its gaps, before the crash. It must be called before anything is
// delivered.
func (m *Reconciler) Reported(ctx context.Context, apps []string) (*Reported, error) {
	t := &Reported{apps: make(map[string]map[uint64]struct{}), until: time.Now().Add(reportedLast)}
	gaps, err := m.cfg.Log.Gaps(ctx, m.cfg.Alive)
	if err != nil || len(gaps) == 0 {
		return t, err
	}
	since := event.IDAt(newRound(m, gaps).from)
	for _, app := range apps {
		if err := t.read(ctx, m.cfg.Log, app, since); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *Reported) read(ctx context.Context, log event.Log, app string, since uint64) error {
	for t.left.Load() < maxReported {
		evs, last, err := log.Read(ctx, app, since, pageSize, false)
		if err != nil || len(evs) == 0 {
			return err
		}
		for i := range evs {
			if evs[i].Type == event.Delivered {
				t.add(app, evs[i].Key())
			}
		}
		since = last
	}
	return nil
}

func (t *Reported) add(app string, key uint64) {
	keys := t.apps[app]
	if keys == nil {
		keys = make(map[uint64]struct{})
		t.apps[app] = keys
	}
	if _, known := keys[key]; !known {
		keys[key] = struct{}{}
		t.left.Add(1)
	}
}

// Take reports whether the log recorded a first delivery of this copy before the crash. It reports each delivery once.
func (t *Reported) Take(app, note, to string) bool {
	if t.left.Load() == 0 {
		return false
	}
	key := (&event.Event{Type: event.Delivered, Note: note, To: to}).Key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().After(t.until) {
		t.apps = nil
		t.left.Store(0)
		return false
	}
	_, reported := t.apps[app][key]
	if reported {
		delete(t.apps[app], key)
		t.left.Add(-1)
	}
	return reported
}
