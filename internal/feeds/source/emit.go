package source

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// emitter publishes the entries of a feed while the feed is connected.
type emitter struct {
	*reader
	stuck  atomic.Bool // an entry cannot be stored at the moment
	caught atomic.Bool
}

// Caught implements Emitter.
func (e *emitter) Caught(ctx context.Context) {
	e.caught.Store(true)
	if !e.stuck.Load() {
		e.works(ctx)
	}
}

// Emit implements Emitter.
func (e *emitter) Emit(ctx context.Context, entries []Entry) ([]Outcome, error) {
	outcomes := make([]Outcome, len(entries))
	for begin := 0; begin < len(entries); {
		end := begin + 1 // consecutive publishes are stored in one call
		for end < len(entries) && entries[begin].object() == nil && entries[end].object() == nil {
			end++
		}
		if err := e.settle(ctx, entries[begin:end], outcomes[begin:end]); err != nil {
			return nil, err
		}
		begin = end
	}
	var counts Counts
	for i, o := range outcomes {
		counts.count(o.Fate)
		if o.Fate == Quarantined {
			e.note(ctx, entries[i].From, o.Err)
		}
	}
	e.count(&counts)
	return outcomes, nil
}

// object returns the put that an entry requests; nil: the entry is a publish.
func (e *Entry) object() *Put {
	if e.Delete != nil {
		return &Put{Key: *e.Delete, Put: object.Put{Unknown: true}}
	}
	return e.Put
}

// settle retries until every entry has an outcome: an entry that is not stored now exists only at the source.
func (e *emitter) settle(ctx context.Context, entries []Entry, outcomes []Outcome) error {
	for again := retryLeast; ; again = min(2*again, retryMost) {
		var err error
		if put := entries[0].object(); put != nil {
			outcomes[0], err = e.put(ctx, put)
		} else {
			err = e.publish(ctx, entries, outcomes)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.stuck.Store(true)
		e.fails(ctx, fmt.Errorf("publish what came from %s: %w", e.source.Kind, err))
		pause.For(ctx, again)
	}
	if e.stuck.CompareAndSwap(true, false) {
		e.works(ctx)
	}
	return nil
}

// publish decides the outcomes that are still open. Its error says why some remain open.
func (e *emitter) publish(ctx context.Context, entries []Entry, outcomes []Outcome) (err error) {
	now := e.s.cfg.Now()
	var drafts []*notification.Draft
	var at []int
	for i, entry := range entries {
		d := entry.Publish
		switch {
		case outcomes[i].Fate != "":
		case d == nil:
			outcomes[i] = Outcome{Quarantined, entry.Wrong}
		case !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(now):
			outcomes[i].Fate = Expired
		default:
			if d.ExpiresAt.Sub(now) > notification.MaxTTL {
				d.ExpiresAt = now.Add(notification.MaxTTL) // what mailboxes keep at most
			}
			drafts, at = append(drafts, d), append(at, i)
		}
	}
	if len(drafts) == 0 {
		return nil
	}
	for i, r := range e.s.cfg.Publisher.Publish(ctx, e.source.App, drafts) {
		var failed error
		if outcomes[at[i]], failed = judge(r); failed != nil {
			err = failed
		}
	}
	return err
}

// judge decides an entry's fate by the result of its publish. After an error the entry must be published again.
func judge(r delivery.Result) (Outcome, error) {
	failed := r.Err
	if failed == nil {
		failed = r.Copies[0].Err
	}
	var bad *notification.FieldError
	switch {
	case failed == nil && r.Copies[0].Duplicate:
		return Outcome{Fate: Duplicate}, nil
	case failed == nil:
		return Outcome{Fate: Stored}, nil
	case errors.As(failed, &bad) && bad.Field == "expires_at":
		return Outcome{Fate: Expired}, nil // the draft had not expired when publish checked it
	case errors.As(failed, &bad), errors.Is(failed, mailbox.ErrConflict):
		return Outcome{Quarantined, failed}, nil
	case errors.Is(failed, mailbox.ErrFull):
		return Outcome{Fate: Full}, nil
	}
	return Outcome{}, failed
}

// put stores a version of an object. After an error it must be repeated.
func (e *emitter) put(ctx context.Context, p *Put) (Outcome, error) {
	_, changed, err := e.s.cfg.Objects.Put(ctx, e.source.App, p.Key, &p.Put)
	var bad *notification.FieldError
	switch {
	case errors.As(err, &bad):
		return Outcome{Quarantined, err}, nil
	case err != nil:
		return Outcome{}, err
	case !changed:
		return Outcome{Fate: Duplicate}, nil
	}
	return Outcome{Fate: Stored}, nil
}
