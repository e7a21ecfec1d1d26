package reconcile

import (
	"context"
	"fmt"

	"godwit.dev/godwit/internal/feeds/event"
)

// pageSize is how many events one read of the log returns at most.
const pageSize = 5_000

// known holds the keys of the events that the log has of an app since the time from which it may lack some. A key takes 8 bytes, which is
// little for the time since a crash.
type known struct {
	reported map[uint64]bool // by Event.Key
	pending  map[uint64]bool // missing events that are searched for once more
	upto     uint64          // id of the newest event that was read
}

func (k *known) has(key uint64) bool { return k.reported[key] || k.pending[key] }

// known reads which events of an app the log has.
func (r *round) known(ctx context.Context, app string) (*known, error) {
	if k := r.apps[app]; k != nil {
		return k, nil
	}
	k := &known{reported: make(map[uint64]bool), pending: make(map[uint64]bool), upto: event.IDAt(r.since)}
	if err := r.read(ctx, app, k); err != nil {
		return nil, err
	}
	r.apps[app] = k
	return k, nil
}

// read continues to the end of the log.
func (r *round) read(ctx context.Context, app string, k *known) error {
	all := event.IDAt(r.from)
	for {
		evs, last, err := r.cfg.Log.Read(ctx, app, k.upto, pageSize, false)
		if err != nil {
			return fmt.Errorf("read what the event log has of %s: %w", app, err)
		}
		for i := range evs {
			if e := &evs[i]; e.ID > all || e.Type == event.Expired {
				k.reported[e.Key()] = true
			}
		}
		k.upto = max(k.upto, last)
		if len(evs) == 0 {
			return nil
		}
	}
}
