package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// MoveToFiles copies everything in a PostgreSQL database into a data folder without a store, and compares both. It may be interrupted at any
// moment; the next call continues from there, or starts anew if a server has used the database meanwhile. The database does not change, but
// for tables of a version before, which it migrates.
func MoveToFiles(ctx context.Context, cfg MoveConfig) (list []Moved, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Tables = withShared(cfg.Tables)
	p, err := move.Prepare(ctx, cfg.Data, cfg.Postgres, cfg.Log)
	if err != nil {
		return nil, err
	}
	defer p.Close(ctx)
	if err := knownModules(ctx, cfg.Tables, p); err != nil {
		return nil, err
	}
	if err := makeSchemas(ctx, cfg.Postgres, cfg.Tables, cfg.Log); err != nil {
		return nil, err
	}
	if err := pgdb.MigrateLeases(ctx, cfg.Postgres, cfg.Log); err != nil {
		return nil, err
	}
	from, err := p.From(ctx)
	if err != nil {
		return nil, err
	}
	if err := readyFolder(cfg.Data, from, p); err != nil {
		return nil, err
	}
	if list, err = fill(ctx, &cfg, p); err != nil {
		return nil, err
	}
	return list, handOver(cfg.Data, from, p)
}

// knownModules refuses a database with tables of a module that this program does not have.
func knownModules(ctx context.Context, tables []Tables, p *move.Prepared) error {
	names, err := p.Schemas(ctx, moduleSchema)
	for _, name := range names {
		if module := strings.TrimPrefix(name, moduleSchema); !slices.ContainsFunc(tables, func(t Tables) bool { return t.Module == module }) {
			return fmt.Errorf("schema %s has the tables of a module that this program does not have", name)
		}
	}
	return err
}

// readyFolder checks that a folder has no store but one that an earlier call began to fill. It removes that if it is of no use any more.
func readyFolder(data, from string, p *move.Prepared) error {
	unfinished := move.FolderFinished(data)
	if unfinished != nil && !errors.Is(unfinished, move.ErrFolderUnfinished) {
		return unfinished
	}
	m, err := readAnyManifest(data)
	there := !errors.Is(err, fs.ErrNotExist)
	switch {
	case unfinished == nil && err == nil && m.From == from:
		return ErrMoved
	case unfinished == nil && there:
		return &NotEmptyError{Target: "the data folder", Why: "it has a store (" + ManifestFile + ")"}
	}
	again, err := p.Resume()
	if err != nil || again {
		return err
	}
	for _, name := range filesIn(data, &manifest{}) {
		for _, suffix := range fileSuffixes {
			path := filepath.Join(data, name+suffix)
			if unfinished == nil {
				if _, err := os.Stat(path); err == nil {
					return &NotEmptyError{Target: "the data folder", Why: "it has " + name + suffix}
				}
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what an earlier copy has left: %w", err)
			}
		}
	}
	if err := os.Remove(filepath.Join(data, ManifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an earlier copy has left: %w", err)
	}
	return p.Begin()
}

// fill opens the files and fills them.
func fill(ctx context.Context, cfg *MoveConfig, p *move.Prepared) (list []Moved, err error) {
	m, err := openAnyManifest(cfg.Data)
	if err != nil {
		return nil, err
	}
	s := &Stores{}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.openEmpty(ctx, cfg, m); err != nil {
		return nil, err
	}
	return move.ToFiles(ctx, move.Config{Files: s.files(m, cfg.Tables), URL: cfg.Postgres, Progress: cfg.Progress, Log: cfg.Log}, p)
}

// openEmpty opens the files of a folder without the stores on them.
func (s *Stores) openEmpty(ctx context.Context, cfg *MoveConfig, m *manifest) error {
	guard := func(name string) sqlitedb.Guard { return m.guard(name, nil) }
	var names []string
	for _, f := range []struct {
		part, name string
		open       func(context.Context, string, sqlitedb.Guard, *slog.Logger) (*sqlitedb.DB, error)
	}{
		{"app store", AppsFile, appdb.OpenFile},
		{"event log", EventsFile, eventdb.OpenFile},
		{"object store", ObjectsFile, objectdb.OpenFile},
		{"mailbox store", MailboxFile, mailboxdb.OpenFile},
		{"campaign store", CampaignsFile, campaigndb.OpenFile},
	} {
		db, err := f.open(ctx, filepath.Join(cfg.Data, f.name), guard(f.name), cfg.Log)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, Part{Name: f.part, Close: db.Close, db: db})
		names = append(names, f.name)
	}
	for i := range cfg.Tables {
		if err := s.openFile(ctx, &cfg.Tables[i], &Config{Data: cfg.Data, Log: cfg.Log}, guard); err != nil {
			return err
		}
		names = append(names, fileOf(cfg.Tables[i].Module))
	}
	return m.add(cfg.Data, names...)
}

// handOver notes where the folder is from, and that servers may use it.
func handOver(data, from string, p *move.Prepared) error {
	m, err := readAnyManifest(data)
	if err != nil {
		return err
	}
	m.From = from
	if err := m.write(data, os.Rename); err != nil {
		return err
	}
	return p.End()
}
