package store

import (
	"context"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/store/digestdb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sourcedb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// Tables are the tables of a module, in a file or schema of their own, so that their versions affect no other tables.
type Tables struct {
	Module string
	// SQLite and Postgres hold the migrations, *.sql, which are applied in the order of their names, each once. Never change a released
	// file.
	SQLite, Postgres fs.FS
}

// Database holds a module's tables; one of both fields is nil.
type Database struct {
	SQLite   *sqlitedb.DB
	Postgres *pgdb.DB
}

// Read runs f in a transaction with a snapshot. op names it in errors.
func (d *Database) Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	if d.Postgres != nil {
		return d.Postgres.ReadCommon(ctx, op, f)
	}
	return d.SQLite.ReadCommon(ctx, op, f)
}

// Change runs f in a transaction, on PostgreSQL perhaps again from the start.
func (d *Database) Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	if d.Postgres != nil {
		return d.Postgres.DoCommon(ctx, op, f)
	}
	return d.SQLite.DoCommon(ctx, op, f)
}

// sourcesModule is the name, among those of modules, of the tables that all kinds of sources share.
const sourcesModule = "sources"

// withShared adds the tables that every server has a file or schema for, unless they are there: those that all kinds of sources share, and
// those of digests.
func withShared(tables []Tables) []Tables {
	shared := []Tables{{Module: sourcesModule}, {Module: digest.Module}}
	shared[0].SQLite, shared[0].Postgres = sourcedb.Migrations()
	shared[1].SQLite, shared[1].Postgres = digestdb.Migrations()
	shared = slices.DeleteFunc(shared, func(s Tables) bool {
		return slices.ContainsFunc(tables, func(t Tables) bool { return t.Module == s.Module })
	})
	return append(shared, tables...)
}

// moduleName matches valid names of files and schemas.
var moduleName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

const (
	modulePrefix = "module-"
	moduleSuffix = ".db"
	moduleSchema = "godwit_module_"
)

// fileOf returns the file name of a module's tables.
func fileOf(module string) string { return modulePrefix + module + moduleSuffix }

// IsFile reports whether a store may have a database file of this name.
func IsFile(name string) bool {
	module, ok := strings.CutPrefix(name, modulePrefix)
	module, db := strings.CutSuffix(module, moduleSuffix)
	return slices.Contains(Files(), name) || ok && db && moduleName.MatchString(module)
}

// filesIn lists the database files of a folder: those of every server, and those of modules that its manifest names or that
// exist.
func filesIn(data string, m *manifest) []string {
	list := Files()
	found, _ := filepath.Glob(filepath.Join(data, modulePrefix+"*"+moduleSuffix)) // the pattern is well formed
	for _, path := range append(found, m.Files...) {
		if name := filepath.Base(path); IsFile(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// checkTables refuses modules with duplicate names, or with names that are not allowed for tables.
func checkTables(tables []Tables) error {
	seen := make(map[string]bool)
	for _, t := range tables {
		if !moduleName.MatchString(t.Module) {
			return fmt.Errorf("module %q brings tables: its name must be lower-case letters, digits and _", t.Module)
		}
		if seen[t.Module] {
			return fmt.Errorf("module %s brings tables, which another module %s has", t.Module, t.Module)
		}
		seen[t.Module] = true
	}
	return nil
}

// Database returns the database of a module's tables; nil: the module has none.
func (s *Stores) Database(module string) *Database { return s.modules[module] }

func (s *Stores) addDatabase(module string, db *Database, p Part) {
	if s.modules == nil {
		s.modules = make(map[string]*Database)
	}
	s.modules[module] = db
	s.parts = append(s.parts, p)
}

// openFile opens the file of a module's tables.
func (s *Stores) openFile(ctx context.Context, t *Tables, cfg *Config, guard func(name string) sqlitedb.Guard) error {
	scripts, err := scriptsOf(t.SQLite)
	if err != nil {
		return fmt.Errorf("read migrations of module %s: %w", t.Module, err)
	}
	name := fileOf(t.Module)
	db, err := sqlitedb.Open(ctx, filepath.Join(cfg.Data, name), sqlitedb.Options{
		AppID: int32(crc32.ChecksumIEEE([]byte(name)) >> 1), Migrations: scripts, Guard: guard(name), Fatal: cfg.Fatal, Log: cfg.Log, VFS: cfg.VFS, // 31 bits
	}, nil)
	if err != nil {
		return err
	}
	s.addDatabase(t.Module, &Database{SQLite: db}, Part{Name: "tables of " + t.Module, Close: db.Close, db: db})
	return nil
}

// openSchema opens the schema of a module's tables.
func (s *Stores) openSchema(ctx context.Context, t *Tables, cfg *Config, reach *pgdb.Reach) error {
	db, err := pgdb.Open(ctx, pgdb.Config{URL: cfg.Postgres, Reach: reach, Schema: moduleSchema + t.Module, Migrations: t.Postgres, Now: s.Clock, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.addDatabase(t.Module, &Database{Postgres: db}, Part{Name: "tables of " + t.Module, Close: func() error { db.Close(); return nil }})
	return nil
}

// scriptsOf returns the contents of *.sql in the order of their names.
func scriptsOf(files fs.FS) (scripts []string, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names { // Glob sorts
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, string(b))
	}
	return scripts, nil
}
