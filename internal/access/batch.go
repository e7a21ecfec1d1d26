package access

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of the fixed batching intervals of an app's objects.
const (
	MinBatch   = 100 * time.Millisecond // below it, the load decides better (objects_batch_max)
	MaxBatch   = time.Hour              // a signal that is older says little
	maxBatches = 64                     // groups with an interval, because all settings of an app are read together
)

// EveryGroup stands for the groups without an interval of their own.
const EveryGroup = "*"

// CheckBatchGroup checks the name of a group, or EveryGroup.
func CheckBatchGroup(name string) error {
	if name == EveryGroup {
		return nil
	}
	return notification.CheckName("group", name)
}

// Batches returns an app's batching intervals by group.
func (r *Registry) Batches(app string) map[string]time.Duration {
	if a := r.snap.Load().apps[app]; a != nil {
		return a.Batches
	}
	return nil
}

// Batch returns the batching interval that applies to a group; 0: none.
func (r *Registry) Batch(app, group string) time.Duration {
	all := r.Batches(app)
	if len(all) == 0 {
		return 0
	}
	if d, own := all[group]; own {
		return d
	}
	return all[EveryGroup]
}

var batches = named[time.Duration]{
	what: "the batching of group", log: "batching changed", key: "group", none: ErrNoBatch,
	of: func(a *App) *map[string]time.Duration { return &a.Batches },
}

// SetBatch sets a group's batching interval, if it matches. 0: the group has none, whatever EveryGroup says. Every server that shares the apps' store uses
// it within a second.
func (r *Registry) SetBatch(ctx context.Context, app, group string, d time.Duration, must setting.Match) error {
	if err := CheckBatchGroup(group); err != nil {
		return err
	}
	if d != 0 && (d < MinBatch || d > MaxBatch) {
		return notification.BadField("batch", "must be 0, or from %s to %s, not %s", MinBatch, MaxBatch, d)
	}
	return batches.change(ctx, r, app, group, must, func(all map[string]time.Duration) error {
		if _, there := all[group]; !there && len(all) >= maxBatches {
			return notification.BadField("group", "%d groups of the app have a batching interval; at most %d may have one", len(all), maxBatches)
		}
		all[group] = d
		return nil
	})
}

// DeleteBatch deletes a group's batching interval, if it matches. It fails with ErrNoBatch if the group has none.
func (r *Registry) DeleteBatch(ctx context.Context, app, group string, must setting.Match) error {
	return batches.delete(ctx, r, app, group, must)
}
