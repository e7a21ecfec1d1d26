package eventdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/hook"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ hook.ProgressStore = (*Log)(nil)

// HookProgress reads the progress of all hooks.
func (l *Log) HookProgress(ctx context.Context) ([]hook.Progress, error) {
	rows, err := l.db.Pool().Query(ctx, "SELECT app, name, progress FROM hook")
	if err != nil {
		return nil, pgdb.Error("read progress of hooks", err)
	}
	list, err := pgx.AppendRows([]hook.Progress(nil), rows, func(row pgx.CollectableRow) (hook.Progress, error) {
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
	return list, pgdb.Error("read progress of hooks", err)
}

// SaveHookProgress writes the progress of some hooks and forgets that of others, given by app and name.
func (l *Log) SaveHookProgress(ctx context.Context, save []hook.Progress, forget [][2]string) error {
	// In one order on all nodes, so that they wait for each other.
	save = slices.SortedFunc(slices.Values(save), func(a, b hook.Progress) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Name, b.Name))
	})
	apps, names, progress := make([]string, len(save)), make([]string, len(save)), make([]string, len(save))
	for i := range save {
		b, err := json.Marshal(&save[i])
		if err != nil {
			return fmt.Errorf("save progress of hooks: %w", err)
		}
		apps[i], names[i], progress[i] = save[i].App, save[i].Name, string(b)
	}
	gone := [2][]string{}
	for _, f := range forget {
		gone[0], gone[1] = append(gone[0], f[0]), append(gone[1], f[1])
	}
	batch := &pgx.Batch{}
	if len(forget) > 0 {
		batch.Queue("DELETE FROM hook USING unnest($1::text[], $2::text[]) AS gone (app, name) WHERE hook.app = gone.app AND hook.name = gone.name", gone[0], gone[1])
	}
	if len(save) > 0 {
		batch.Queue(`INSERT INTO hook (app, name, progress) SELECT app, name, progress FROM unnest($1::text[], $2::text[], $3::text[]) AS new (app, name, progress)
			ON CONFLICT (app, name) DO UPDATE SET progress = excluded.progress`, apps, names, progress)
	}
	if batch.Len() == 0 {
		return nil
	}
	return l.db.Send(ctx, "save progress of hooks", batch, func(results pgx.BatchResults) error {
		for range batch.Len() {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		return nil
	})
}
