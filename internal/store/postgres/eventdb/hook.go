package eventdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ hook.ProgressStore = (*Log)(nil)

const (
	selectHooks   = "SELECT app, name, progress FROM hook"
	selectAppHook = selectHooks + " WHERE app = $1"
)

// HookProgress reads the progress of an app's hooks, or of all.
func (l *Log) HookProgress(ctx context.Context, app string) (list []hook.Progress, err error) {
	var rows pgx.Rows
	if app == "" {
		rows, err = l.db.Pool().Query(ctx, selectHooks)
	} else {
		rows, err = l.db.Pool().Query(ctx, selectAppHook, app)
	}
	if err == nil {
		list, err = collectHooks(rows)
	}
	return list, pgdb.Error("read progress of hooks", err)
}

func collectHooks(rows pgx.Rows) ([]hook.Progress, error) {
	return pgx.AppendRows([]hook.Progress(nil), rows, func(row pgx.CollectableRow) (hook.Progress, error) {
		var app, name, progress string
		if err := row.Scan(&app, &name, &progress); err != nil {
			return hook.Progress{}, err
		}
		p := hook.Progress{App: app, Name: name}
		if err := json.Unmarshal([]byte(progress), &p); err != nil {
			return p, fmt.Errorf("app %s: progress of hook %s is damaged", app, name)
		}
		return p, nil
	})
}

// At least the time, so that epochs increase even if the last commits were lost.
const ownHooks = `INSERT INTO hook_owner (app, epoch) VALUES ($1, $2)
	ON CONFLICT (app) DO UPDATE SET epoch = greatest(hook_owner.epoch + 1, excluded.epoch) RETURNING epoch`

// OwnHookProgress gives the progress of an app's hooks a new owner. It reads the progress after it has locked the owner's row, so that the
// result includes the former owner's last commit.
func (l *Log) OwnHookProgress(ctx context.Context, app string) (epoch int64, list []hook.Progress, err error) {
	err = l.db.Do(ctx, "own progress of hooks", func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, ownHooks, app, l.db.Now().UnixMilli()).Scan(&epoch); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, selectAppHook, app)
		if err == nil {
			list, err = collectHooks(rows)
		}
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return epoch, list, nil
}

// SaveHookProgress writes the progress that owners save.
func (l *Log) SaveHookProgress(ctx context.Context, list []hook.Saving) (former []string, err error) {
	// In the same order on all nodes, so that they wait for each other but never deadlock.
	list = slices.SortedFunc(slices.Values(list), func(a, b hook.Saving) int { return cmp.Compare(a.App, b.App) })
	err = l.db.Do(ctx, "save progress of hooks", func(ctx context.Context, tx pgx.Tx) (err error) {
		var owns []hook.Saving
		if owns, former, err = owners(ctx, tx, list); err != nil {
			return err
		}
		return saveHooks(ctx, tx, owns)
	})
	if err != nil {
		return nil, err
	}
	return former, nil
}

// owners separates current owners from former ones, and prevents others from taking over until the transaction ends.
func owners(ctx context.Context, tx pgx.Tx, list []hook.Saving) (owns []hook.Saving, former []string, err error) {
	apps := make([]string, len(list))
	for i := range list {
		apps[i] = list[i].App
	}
	rows, err := tx.Query(ctx, "SELECT app, epoch FROM hook_owner WHERE app = ANY($1) ORDER BY app FOR SHARE", apps)
	if err != nil {
		return nil, nil, err
	}
	var app string
	var epoch int64
	epochs := make(map[string]int64, len(list))
	if _, err := pgx.ForEachRow(rows, []any{&app, &epoch}, func() error { epochs[app] = epoch; return nil }); err != nil {
		return nil, nil, err
	}
	for i := range list {
		if now, ok := epochs[list[i].App]; ok && now == list[i].Epoch {
			owns = append(owns, list[i])
		} else {
			former = append(former, list[i].App)
		}
	}
	return owns, former, nil
}

func saveHooks(ctx context.Context, tx pgx.Tx, list []hook.Saving) error {
	var gone, save struct{ apps, names, progress []string }
	for i := range list {
		for _, name := range list[i].Forget {
			gone.apps, gone.names = append(gone.apps, list[i].App), append(gone.names, name)
		}
		for j := range list[i].Save {
			p := &list[i].Save[j]
			b, err := json.Marshal(p)
			if err != nil {
				return err
			}
			save.apps, save.names, save.progress = append(save.apps, list[i].App), append(save.names, p.Name), append(save.progress, string(b))
		}
	}
	batch := &pgx.Batch{}
	if len(gone.names) > 0 {
		batch.Queue("DELETE FROM hook USING unnest($1::text[], $2::text[]) AS gone (app, name) WHERE hook.app = gone.app AND hook.name = gone.name", gone.apps, gone.names)
	}
	if len(save.names) > 0 {
		batch.Queue(`INSERT INTO hook (app, name, progress) SELECT app, name, progress FROM unnest($1::text[], $2::text[], $3::text[]) AS new (app, name, progress)
			ON CONFLICT (app, name) DO UPDATE SET progress = excluded.progress`, save.apps, save.names, save.progress)
	}
	results := tx.SendBatch(ctx, batch)
	for range batch.Len() {
		if _, err := results.Exec(); err != nil {
			return errors.Join(err, results.Close())
		}
	}
	return results.Close()
}
