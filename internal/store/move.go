package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/postgres/appdb"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/eventdb"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/objectdb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// MoveConfig names the source and the target of a copy. Data and Postgres are required.
type MoveConfig struct {
	Data     string                                   // data folder of a stopped server; no other process may open it
	Postgres string                                   // URL of a database that contains nothing else
	Tables   []Tables                                 // of modules
	Progress func(doing string, rows int, left int64) // see move.Config
	Log      *slog.Logger                             // nil: discards
}

// Moved is the number of things of one kind that are equal in both places.
type Moved = move.Count

// ErrMoved says that an earlier call has already copied everything.
var ErrMoved = move.ErrDone

// NotEmptyError says that a database has contents that were not copied from this folder.
type NotEmptyError = move.NotEmptyError

// keptEvents is a retention long enough that no event is deleted while the log is copied.
const keptEvents = 100 * 365 * 24 * time.Hour

// MoveToPostgres copies everything in a data folder into a PostgreSQL database, and compares both. It may be interrupted at any moment; the
// next call continues from there. The folder does not change.
func MoveToPostgres(ctx context.Context, cfg MoveConfig) (list []Moved, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := readManifest(cfg.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no store in %s: %w", cfg.Data, err)
	}
	if err != nil {
		return nil, err
	}
	tables, err := tablesIn(cfg.Data, m, withShared(cfg.Tables))
	if err != nil {
		return nil, err
	}
	from, err := Open(ctx, Config{Data: cfg.Data, Events: keptEvents, Tables: tables, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := makeSchemas(ctx, cfg.Postgres, tables, cfg.Log); err != nil {
		return nil, err
	}
	sources := from.sources(tables)
	sources.Store = m.ID
	list, err = move.Run(ctx, move.Config{From: sources, URL: cfg.Postgres, Progress: cfg.Progress, Log: cfg.Log})
	if damage := from.Damage(); damage != nil {
		return nil, errors.Join(damage, err)
	}
	return list, err
}

// sources returns the databases of a store of files: its own, and those with the tables of modules.
func (s *Stores) sources(tables []Tables) move.Sources {
	var sources move.Sources
	for i := range s.parts {
		switch p := &s.parts[i]; p.Name {
		case "app store":
			sources.Apps = p.db
		case "mailbox store":
			sources.Mailbox = p.db
		case "event log":
			sources.Events = p.db
		case "object store":
			sources.Objects = p.db
		case "campaign store":
			sources.Campaigns = p.db
		}
	}
	for _, t := range tables {
		sources.Modules = append(sources.Modules, move.Module{Name: t.Module, From: s.Database(t.Module).SQLite, Schema: moduleSchema + t.Module})
	}
	return sources
}

// makeSchemas makes the tables of the stores where there are none.
func makeSchemas(ctx context.Context, url string, tables []Tables, log *slog.Logger) error {
	for _, open := range []func() (interface{ Close() error }, error){
		func() (interface{ Close() error }, error) { return appdb.Open(ctx, appdb.Config{URL: url}) },
		func() (interface{ Close() error }, error) { return eventdb.Open(ctx, eventdb.Config{URL: url}) },
		func() (interface{ Close() error }, error) { return objectdb.Open(ctx, objectdb.Config{URL: url}) },
		func() (interface{ Close() error }, error) { return campaigndb.Open(ctx, campaigndb.Config{URL: url}) },
		func() (interface{ Close() error }, error) { return mailboxdb.Open(ctx, mailboxdb.Config{URL: url}) },
	} {
		s, err := open()
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return err
		}
	}
	for _, t := range tables {
		db, err := pgdb.Open(ctx, pgdb.Config{URL: url, Schema: moduleSchema + t.Module, Migrations: t.Postgres, Now: time.Now, Log: log})
		if err != nil {
			return err
		}
		db.Close()
	}
	return nil
}

// tablesIn are the tables of modules that have a file in a folder. It refuses a file whose module is not known.
func tablesIn(data string, m *manifest, known []Tables) (there []Tables, err error) {
	for _, name := range filesIn(data, m) {
		i := slices.IndexFunc(known, func(t Tables) bool { return fileOf(t.Module) == name })
		switch {
		case i >= 0:
			there = append(there, known[i])
		case !slices.Contains(Files(), name):
			return nil, fmt.Errorf("%s has the tables of a module that this program does not have", filepath.Join(data, name))
		}
	}
	return there, nil
}
