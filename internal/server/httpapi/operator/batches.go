package operator

import (
	"context"
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Batches stores the fixed batching intervals of an app's objects.
type Batches interface {
	Batches(app string) map[string]time.Duration
	SetBatch(ctx context.Context, app, group string, d time.Duration, must setting.Match) error
	DeleteBatch(ctx context.Context, app, group string, must setting.Match) error
}

// AppSettings stores settings of an app that have names.
type AppSettings interface {
	Categories
	Batches
}

const maxBatchBody = 1 << 10

type batchJSON struct {
	Group string `json:"group"`
	Batch string `json:"batch"`

	revised
}

func viewBatch(group string, d time.Duration) batchJSON {
	return batchJSON{group, d.String(), atRevision(setting.RevisionOf(d))}
}

// batches returns the calls below /v1/batches.
func (a *API) batches() settings[batchJSON] {
	return settings[batchJSON]{
		kind: "batch", path: "/v1/batches", name: "group", most: maxBatchBody,
		drop: func(c *call.Call, group string, must setting.Match) error {
			return a.Settings.DeleteBatch(c.Ctx, c.Key.App, group, must)
		},
		check: access.CheckBatchGroup,
		list: func(c *call.Call) (items []batchJSON, err error) {
			all := a.Settings.Batches(c.Key.App)
			for _, group := range slices.Sorted(maps.Keys(all)) {
				items = append(items, viewBatch(group, all[group]))
			}
			return items, nil
		},
		get: func(c *call.Call, group string) (v batchJSON, err error) {
			d, there := a.Settings.Batches(c.Key.App)[group]
			if !there {
				return v, access.ErrNoBatch
			}
			return viewBatch(group, d), nil
		},
		set: func(c *call.Call, group string, body []byte, must setting.Match) (v batchJSON, created bool, err error) {
			d, err := decodeBatch(body)
			if err == nil {
				err = a.Settings.SetBatch(c.Ctx, c.Key.App, group, d, must)
			}
			return viewBatch(group, d), false, err
		},
	}
}

func decodeBatch(body []byte) (d time.Duration, err error) {
	d = -1
	err = call.Fields{"batch": durationInto(&d, "60s, or 0s for none")}.Decode(body)
	if err == nil && d < 0 {
		err = notification.BadField("batch", "is missing: give a duration like 60s, or 0s for none")
	}
	return d, err
}
