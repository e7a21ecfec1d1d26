package streams

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
)

const (
	perRound  = 64               // streams read together
	perStream = 16               // most entries of one stream in a round, so that a long stream does not delay the others
	scanEvery = 30 * time.Second // interval at which all streams are read, whether they have new entries or not
)

// feed emits the entries of all streams.
type feed struct{ streams Streams }

// Finding implements source.Feed.
func (f *feed) Finding() string { return f.streams.Finding() }

// Close implements source.Feed.
func (f *feed) Close() { f.streams.Close() }

// Run implements source.Feed.
func (f *feed) Run(ctx context.Context, to source.Emitter) (err error) {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	q := newQueue()
	var wg sync.WaitGroup
	wg.Go(func() { lost(f.streams.Watch(ctx, q.add, q.miss)) })
	wg.Go(func() { lost(f.scan(ctx, to, q)) })
	for err == nil {
		var keys []string
		if keys, err = q.take(ctx, perRound); err == nil {
			err = f.round(ctx, to, q, keys)
		}
	}
	lost(err)
	wg.Wait()
	return context.Cause(ctx)
}

// scan queues all streams: at first, whenever changes may have been missed, and at intervals.
func (f *feed) scan(ctx context.Context, to source.Emitter, q *queue) error {
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for {
		err := f.streams.Scan(ctx, func(keys []string) error {
			q.add(keys)
			return q.room(ctx)
		})
		if err != nil {
			return err
		}
		to.Caught(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.missed:
		case <-tick.C:
		}
	}
}

// round reads some streams and emits their entries.
func (f *feed) round(ctx context.Context, to source.Emitter, q *queue, keys []string) error {
	list, err := f.streams.Read(ctx, keys, perStream)
	if err != nil {
		return err
	}
	var entries []source.Entry
	for _, one := range list {
		for _, e := range one.Entries {
			entries = append(entries, source.Entry{From: one.Key, Publish: e.Draft, Wrong: e.Wrong})
		}
	}
	outcomes, err := to.Emit(ctx, entries)
	if err != nil {
		return err
	}
	done, more := make(map[string][]string), []string{}
	for _, one := range list {
		took := false
		for i, e := range one.Entries {
			switch o := outcomes[i]; o.Fate {
			case source.Full: // stays for the next scan
				continue
			case source.Quarantined:
				if err := f.streams.Quarantine(ctx, one.Key, e, o.Err); err != nil {
					return err
				}
			default:
				done[one.Key] = append(done[one.Key], e.ID)
			}
			took = true
		}
		outcomes = outcomes[len(one.Entries):]
		// A stream that returned as many entries as one read may have more; if no entry could be taken, the next scan reads it.
		if len(one.Entries) >= perStream && took {
			more = append(more, one.Key)
		}
	}
	if err := f.streams.Delete(ctx, done); err != nil {
		return err
	}
	q.add(more)
	return nil
}
