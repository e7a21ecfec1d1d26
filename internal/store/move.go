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
	Data     string                                   // data folder that no server uses; no other process may open it
	Postgres string                                   // URL of a database that no server uses
	Tables   []Tables                                 // of modules
	Progress func(doing string, rows int, left int64) // see move.Config
	Log      *slog.Logger                             // nil: discards
}

// Moved is the number of things of one kind that are equal in both places.
type Moved = move.Count

// ErrMoved says that an earlier call has already copied everything.
var ErrMoved = move.ErrDone

// NotEmptyError says that the target has contents that were not copied from the source.
type NotEmptyError = move.NotEmptyError

// HeldError says that servers use the database.
type HeldError = move.HeldError

// ErrNoData says that a database has nothing of a server.
var ErrNoData = move.ErrNoData

// keptEvents is a retention long enough that no event is deleted while the log is copied.
const keptEvents = 100 * 365 * 24 * time.Hour

// MoveToPostgres copies everything in a data folder into a PostgreSQL database that contains nothing else, and compares both. It may be interrupted at any moment; the
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
	if err := makeHours(ctx, cfg.Postgres); err != nil {
		return nil, err
	}
	list, err = move.ToPostgres(ctx, move.Config{Files: from.files(m, tables), URL: cfg.Postgres, Progress: cfg.Progress, Log: cfg.Log})
	if damage := from.Damage(); damage != nil {
		return nil, errors.Join(damage, err)
	}
	return list, err
}

// files returns the databases of a store of files: its own, and those with the tables of modules.
func (s *Stores) files(m *manifest, tables []Tables) move.Files {
	files := move.Files{Store: m.ID}
	for i := range s.parts {
		switch p := &s.parts[i]; p.Name {
		case "app store":
			files.Apps = p.db
		case "mailbox store":
			files.Mailbox = p.db
		case "event log":
			files.Events = p.db
		case "object store":
			files.Objects = p.db
		case "campaign store":
			files.Campaigns = p.db
		}
	}
	for _, t := range tables {
		files.Modules = append(files.Modules, move.Module{Name: t.Module, File: s.Database(t.Module).SQLite, Schema: moduleSchema + t.Module})
	}
	return files
}

// schemas are those of the stores, with the scripts of their tables.
var schemas = []struct {
	name    string
	scripts func() (fs.FS, error)
}{
	{"godwit_app", appdb.Migrations},
	{"godwit_event", eventdb.Migrations},
	{"godwit_object", objectdb.Migrations},
	{"godwit_campaign", campaigndb.Migrations},
	{"godwit_mailbox", mailboxdb.Migrations},
}

// makeSchemas makes the tables of the stores where there are none.
func makeSchemas(ctx context.Context, url string, tables []Tables, log *slog.Logger) error {
	for _, s := range schemas {
		scripts, err := s.scripts()
		if err != nil {
			return err
		}
		if err := pgdb.Migrate(ctx, pgdb.Config{URL: url, Schema: s.name, Migrations: scripts, Log: log}); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if err := pgdb.Migrate(ctx, pgdb.Config{URL: url, Schema: moduleSchema + t.Module, Migrations: t.Postgres, Log: log}); err != nil {
			return err
		}
	}
	return nil
}

// makeHours makes the tables of the present hour, which take the copies.
func makeHours(ctx context.Context, url string) error {
	s, err := mailboxdb.Open(ctx, mailboxdb.Config{URL: url})
	if err != nil {
		return err
	}
	return s.Close()
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
