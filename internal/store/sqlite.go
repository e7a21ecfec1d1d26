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

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Names of the files in a data folder: SQLite databases in WAL mode.
const (
	AppsFile      = "apps.db"
	MailboxFile   = "mailbox.db"
	EventsFile    = "events.db"
	ObjectsFile   = "objects.db"
	CampaignsFile = "campaign.db"
)

// Files lists all database files.
func Files() []string {
	return []string{AppsFile, MailboxFile, EventsFile, ObjectsFile, CampaignsFile}
}

// fileSuffixes are those of a database file and the files beside it.
var fileSuffixes = []string{"", "-wal", "-shm", checkvfs.Suffix, checkvfs.NoteSuffix}

// Traces lists all files that a store may leave in its folder.
func Traces() []string {
	list := []string{ManifestFile, move.NotesFile}
	for _, name := range Files() {
		for _, suffix := range fileSuffixes {
			list = append(list, name+suffix)
		}
	}
	return list
}

// openSQLite opens the files. While it closes, the mailboxes' observer may still report commits and emit events: so events are opened
// before mailboxes, and closed after them. After an error the caller closes the parts that were opened.
func (s *Stores) openSQLite(ctx context.Context, cfg Config) error {
	s.Clock = mailbox.Clock()
	file := func(name string) string { return filepath.Join(cfg.Data, name) }
	free := func() int64 { return sqlitedb.Free(cfg.Data) }
	m, err := openManifest(cfg.Data)
	if err != nil {
		return err
	}
	s.data, s.manifest, s.told = cfg.Data, m, cfg.Damaged
	guard := func(name string) sqlitedb.Guard { return m.guard(name, s.damaged) }

	apps, err := appdb.OpenGuarded(ctx, file(AppsFile), guard(AppsFile), cfg.Log)
	if err != nil {
		return err
	}
	s.Apps = appsOf(apps.Store)
	s.parts = append(s.parts, Part{Name: "app store", Close: apps.Close, db: apps.DB()})

	events, err := eventdb.Open(ctx, file(EventsFile), eventdb.Options{MaxAge: cfg.Events, Free: free, MinFree: cfg.MinFree, Guard: guard(EventsFile), Now: s.Clock, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.Events, s.Progress, s.Drained = events, events, events
	s.DroppedEvents = func() uint64 { return events.Stats().Dropped }
	s.parts = append(s.parts, Part{Name: "event log", Close: events.Close, db: events.DB(), trims: events, metrics: events.Metrics()})

	objects, err := objectdb.Open(ctx, file(ObjectsFile), objectdb.Config{MinFree: cfg.MinFree, Guard: guard(ObjectsFile), Fatal: cfg.Fatal, Log: cfg.Log, VFS: cfg.VFS})
	if err != nil {
		return err
	}
	s.Objects = objects
	s.parts = append(s.parts, Part{Name: "object store", Close: objects.Close, db: objects.DB()})

	mailboxes, err := mailboxdb.Open(ctx, file(MailboxFile), mailboxdb.Config{
		MaxPending: cfg.MaxPending, NoAttempts: cfg.NoAttempts, MinFree: cfg.MinFree, Ballast: cfg.Ballast, Guard: guard(MailboxFile), Fatal: cfg.Fatal, Now: s.Clock, Log: cfg.Log, VFS: cfg.VFS,
	})
	if err != nil {
		return err
	}
	s.Mailbox, s.Changes, s.Steps, s.Inboxes = mailboxes, mailboxes, mailboxes, mailboxes
	s.parts = append(s.parts, Part{Name: "mailbox store", Close: mailboxes.Close, db: mailboxes.DB(), trims: mailboxes})

	campaigns, err := campaigndb.Open(ctx, file(CampaignsFile), campaigndb.Config{
		Free: free, MinFree: cfg.MinFree, Guard: guard(CampaignsFile), Fatal: cfg.Fatal, Now: s.Clock, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	s.erases = []appEraser{events, objects, campaigns}
	s.Endpoints, s.Campaigns, s.Sends, s.Preferences = campaigns, campaigns, campaigns, campaigns
	s.parts = append(s.parts, Part{Name: "campaign store", Close: campaigns.Close, db: campaigns.DB(), trims: campaigns, metrics: campaigns.EndpointMetrics()})
	names := Files()
	for i := range cfg.Tables {
		if err := s.openFile(ctx, &cfg.Tables[i], &cfg, guard); err != nil {
			return err
		}
		names = append(names, fileOf(cfg.Tables[i].Module))
	}
	s.guarded()
	return m.add(cfg.Data, names...)
}

// openAppsFile opens the store of apps. If create is true it makes a missing folder or file; otherwise it fails with fs.ErrNotExist.
func openAppsFile(ctx context.Context, data string, create bool, log *slog.Logger) (apps Apps, closing func() error, err error) {
	if create {
		if err := os.MkdirAll(data, 0o700); err != nil {
			return apps, nil, fmt.Errorf("make data folder: %w", err)
		}
	} else if _, err := os.Stat(filepath.Join(data, AppsFile)); errors.Is(err, fs.ErrNotExist) {
		if m, err := readManifest(data); err == nil && slices.Contains(m.Files, AppsFile) {
			return apps, nil, m.missing(data, AppsFile)
		}
		return apps, nil, fmt.Errorf("open app store: %w", err)
	}
	m, err := openManifest(data)
	if err != nil {
		return apps, nil, err
	}
	s, err := appdb.OpenGuarded(ctx, filepath.Join(data, AppsFile), m.guard(AppsFile, nil), log)
	if err != nil {
		return apps, nil, err
	}
	if err := m.add(data, AppsFile); err != nil {
		return apps, nil, errors.Join(err, s.Close())
	}
	return appsOf(s.Store), s.Close, nil
}

// Copy copies each database of a data folder into another folder as of one moment, also beside a running server, and returns the names of
// those that exist.
func Copy(ctx context.Context, data, to string) (copied []string, err error) {
	m, err := readManifest(data)
	if errors.Is(err, fs.ErrNotExist) {
		m, err = &manifest{}, nil // of a former version
	}
	if err != nil {
		return nil, err
	}
	for _, name := range filesIn(data, m) {
		from, known := filepath.Join(data, name), slices.Contains(m.Files, name)
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			if known {
				return copied, m.missing(data, name)
			}
			continue
		}
		if err := sqlitedb.Backup(ctx, from, filepath.Join(to, name), known && m.Checksums); err != nil {
			return copied, err
		}
		copied = append(copied, name)
	}
	return copied, nil
}
