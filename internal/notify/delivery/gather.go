package delivery

import (
	"context"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Gatherer keeps notifications that wait for a digest.
type Gatherer interface {
	// Gathers reports whether an app has notifications that gather, or had some lately. Every publish asks it.
	Gathers(app string) bool
	// Gather stores the copies that wait for a digest, and fills in their results. It also finds duplicates among the copies of the other
	// notifications, whose id may be that of a notification that has gathered. taken has, for each element of batch, which of its copies have
	// their results; nil: none.
	Gather(ctx context.Context, app string, batch []*mailbox.Append, drafts []*notification.Draft) (taken [][]bool, err error)
}

// GatherBy lets g take notifications that wait for a digest. It must be called before the first publish.
func (s *Service) GatherBy(g Gatherer) { s.apart = g }

// keep stores a batch: what gathers apart from the mailboxes, and the rest in them. slots has, for each element of batch, the index of its draft.
func (s *Service) keep(ctx context.Context, app string, batch []*mailbox.Append, drafts []*notification.Draft, slots []int) error {
	if s.apart == nil || !s.apart.Gathers(app) {
		return s.append(ctx, batch, drafts, slots)
	}
	of := make([]*notification.Draft, len(batch))
	for i := range batch {
		of[i] = drafts[slots[i]]
	}
	taken, err := s.apart.Gather(ctx, app, batch, of)
	if err != nil {
		return err
	}
	var rest []*mailbox.Append
	var at []int
	for i, a := range batch {
		if r := without(a, taken[i]); r != nil {
			rest, at = append(rest, r), append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	restSlots := make([]int, len(rest))
	for i := range rest {
		restSlots[i] = slots[at[i]]
	}
	if err := s.append(ctx, rest, drafts, restSlots); err != nil {
		return err
	}
	for i, r := range rest {
		join(batch[at[i]], taken[at[i]], r)
	}
	return nil
}

// without returns the part of a whose copies are not taken: a itself, if none is; nil, if all are.
func without(a *mailbox.Append, taken []bool) *mailbox.Append {
	if taken == nil {
		return a
	}
	part := &mailbox.Append{N: a.N, Fresh: a.Fresh, Refused: a.Refused}
	for i, to := range a.To {
		if !taken[i] {
			part.To = append(part.To, to)
		}
	}
	if len(part.To) == 0 {
		return nil
	}
	return part
}

// join puts the results of a part into those of the whole.
func join(a *mailbox.Append, taken []bool, part *mailbox.Append) {
	if part == a {
		return
	}
	next := 0
	for i := range a.Results {
		if !taken[i] {
			a.Results[i] = part.Results[next]
			next++
		}
	}
}
