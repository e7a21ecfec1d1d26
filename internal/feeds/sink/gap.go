package sink

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	// lagMost is the longest time from an event to its emission: a slow disk has to store the change first.
	lagMost = 10 * time.Second
	// ofGap distinguishes the ids of recreated events from those that the log assigns within the same millisecond.
	ofGap = 1 << (event.IDShift - 1)
)

// missed reports whether the log has deleted events that the sink has not written. makeUp then recreates them.
func (r *Runner) missed(ctx context.Context) (bool, error) {
	p := r.Show()
	if r.Past == nil || p.Gap.Upto > 0 {
		return p.Gap.Upto > 0, nil
	}
	gone, err := r.Past.Gone(ctx)
	if err != nil || p.Cursor == 0 || gone <= p.Cursor { // a backfilling sink that has written nothing begins with all events that the log has, so it lacks none
		return false, err
	}
	r.change(func(p *Progress) {
		p.Gap, p.Upto = Gap{Upto: gone}, 0
		p.Gaps++
	})
	r.counts.gaps.Add(1)
	r.Log.WarnContext(ctx, "the event log has deleted events that a sink did not have yet; what the mailboxes know of them is made anew",
		"after", event.TimeOf(p.Cursor).UTC(), "until", event.TimeOf(gone).UTC())
	return true, nil
}

// makeUp writes recreated events, from the mailboxes' records, in place of those that the log has deleted. If it ended early, the next call
// continues at the same place.
func (r *Runner) makeUp(ctx context.Context, held func() bool) error {
	p := r.Show()
	kept, err := r.beyond(ctx, p.Gap.Upto)
	if err != nil {
		r.unread(ctx, err)
		return nil
	}
	after, upto := r.between(&p)
	for place := p.Gap.Place; ; {
		if err := r.save(ctx); err != nil || ctx.Err() != nil || !held() {
			return err
		}
		evs, next, err := r.gather(ctx, after, upto, place, kept)
		if err != nil {
			r.unread(ctx, err)
			return nil
		}
		if len(evs) > 0 {
			r.started.fill(evs)
			if taken, err := r.write(ctx, held, evs); !taken {
				return err
			}
			r.counts.reconciled.Add(uint64(len(evs)))
		}
		made := r.change(func(p *Progress) {
			p.Gap.Place, p.Gap.Made = next, p.Gap.Made+uint64(len(evs))
			p.Written, p.Reconciled = p.Written+uint64(len(evs)), p.Reconciled+uint64(len(evs))
			if len(evs) > 0 {
				p.Last = r.Now().UTC()
			}
			if next == 0 {
				p.Cursor, p.Gap = p.Gap.Upto, Gap{}
			}
		})
		if place = next; next == 0 {
			r.Log.InfoContext(ctx, "events that the log had deleted were made anew for a sink", "in_all", made.Reconciled)
			return r.save(ctx)
		}
	}
}

// between returns the range of times of the missing events: they happened later than after, and not later than upto.
func (r *Runner) between(p *Progress) (after, upto time.Time) {
	after, upto = event.TimeOf(p.Cursor), event.TimeOf(p.Gap.Upto)
	if !r.Sink.Backfill && after.Before(p.Made) {
		after = p.Made // the sink was made when the log was empty
	}
	return after, upto
}

// gather recreates events until there are enough for a batch. kept holds the keys of the events that the log still has.
func (r *Runner) gather(ctx context.Context, after, upto time.Time, place int64, kept map[uint64]bool) (evs []event.Event, next int64, err error) {
	made := r.Show().Gap.Made
	for next = place; len(evs) < batchEvents/2; {
		var got []event.Event
		if got, next, err = r.Past.Between(ctx, r.Sink.App, after, upto, next); err != nil {
			return nil, 0, err
		}
		for i := range got {
			e := &got[i]
			if kept[e.Key()] {
				continue
			}
			e.ID = event.IDAt(e.At) | ofGap | (made+uint64(len(evs)))%ofGap
			evs = append(evs, *e)
		}
		if next == 0 {
			break
		}
	}
	return evs, next, nil
}

// beyond returns the keys of the events that the log has right after an id: some of them happened before the event of that id.
func (r *Runner) beyond(ctx context.Context, id uint64) (keys map[uint64]bool, err error) {
	keys = make(map[uint64]bool)
	for end := event.IDAt(event.TimeOf(id).Add(lagMost)); id < end; {
		evs, last, err := r.Events.Read(ctx, r.Sink.App, id, page, false)
		if err != nil {
			return nil, err
		}
		for i := range evs {
			keys[evs[i].Key()] = true
		}
		if len(evs) == 0 {
			break
		}
		id = last
	}
	return keys, nil
}
