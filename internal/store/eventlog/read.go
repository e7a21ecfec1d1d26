package eventlog

import (
	"context"
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/feeds/event"
)

// ErrClosed is returned to followers when the log closes.
var ErrClosed = errors.New("event log is closed")

// maxPage limits the events in one answer, whatever limit is given.
const maxPage = 10_000

// Read implements event.Log's Read for stored events: since must not be above the newest one's id. stored reads events that are no longer
// in memory. Callers share the events and must not change them.
func (ts *Tails) Read(ctx context.Context, app string, since uint64, limit int, wait bool,
	stored func(ctx context.Context, app string, since uint64, limit int) ([]event.Event, error),
) (evs []event.Event, last uint64, err error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	for {
		v := ts.look(app, since)
		switch {
		case v.closed:
			return nil, since, ErrClosed
		case !v.inMemory:
			evs, err := stored(ctx, app, since, limit)
			if err != nil {
				return nil, since, fmt.Errorf("read events of %s: %w", app, err)
			}
			if len(evs) > 0 {
				return evs, lastOf(evs, limit, v.committed), nil
			}
			// Memory serves a follower from this id on, unless memory has already dropped the event.
			since = max(since, v.committed)
			if !wait {
				return nil, since, nil
			}
		case len(v.chunks) > 0:
			evs := page(v.chunks, since, limit)
			return evs, lastOf(evs, limit, v.committed), nil
		case !wait:
			return nil, max(since, v.committed), nil
		default:
			select {
			case <-v.news:
			case <-ctx.Done():
				return nil, max(since, v.committed), context.Cause(ctx)
			}
		}
	}
}

// lastOf returns a reader's new position: the last event of a full page, or else the last event committed when the page was read.
func lastOf(evs []event.Event, limit int, committed uint64) uint64 {
	last := evs[len(evs)-1].ID
	if len(evs) < limit {
		last = max(last, committed)
	}
	return last
}

func page(chunks []*Chunk, since uint64, limit int) []event.Event {
	first := After(chunks[0].decoded(), since)
	if len(chunks) == 1 || len(first) >= limit {
		return first[:min(limit, len(first)):min(limit, len(first))]
	}
	evs := make([]event.Event, 0, limit)
	evs = append(evs, first...)
	for _, c := range chunks[1:] {
		if len(evs) == limit {
			break
		}
		next := c.decoded()
		evs = append(evs, next[:min(len(next), limit-len(evs))]...)
	}
	return evs
}
