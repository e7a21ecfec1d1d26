package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// NotesFile is a file in a data folder that is being filled. No server may use the folder while it is there.
const NotesFile = "migrate.json"

// ErrFolderUnfinished says that a copy into a folder is unfinished.
var ErrFolderUnfinished = errors.New("the data folder is being filled by godwit migrate postgres-to-sqlite: let that finish, run it again, or remove the folder")

// FolderFinished returns ErrFolderUnfinished if a copy into a folder is unfinished.
func FolderFinished(folder string) error {
	_, err := os.Stat(filepath.Join(folder, NotesFile))
	switch {
	case err == nil:
		return ErrFolderUnfinished
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("look whether the data folder is being filled: %w", err)
}

// progress is what NotesFile has.
type progress struct {
	Database string               `json:"database"` // that the folder is filled from
	Used     int64                `json:"used"`     // by servers, for the last time: see pgdb.LastUse
	Parts    map[string]partNotes `json:"parts"`
}

type partNotes struct {
	Last string `json:"last,omitempty"` // key of the last row that is there
	Rows int64  `json:"rows"`           // that are there
	Done bool   `json:"done"`
}

func (p *progress) note(name string) (*note, error) {
	was, known := p.Parts[name]
	n := &note{name: name, rows: was.Rows, done: was.Done}
	var err error
	if known && was.Last != "" {
		n.last, err = decodeKey(was.Last)
	}
	return n, err
}

// save notes how far a part has come.
func (p *progress) save(folder string, n *note) error {
	last := ""
	if n.last != nil {
		var err error
		if last, err = encodeKey(n.last); err != nil {
			return err
		}
	}
	p.Parts[n.name] = partNotes{Last: last, Rows: n.rows, Done: n.done}
	return p.write(folder)
}

// write replaces the file in one step.
func (p *progress) write(folder string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, "."+NotesFile+"-*")
	if err != nil {
		return fmt.Errorf("note what was copied: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, NotesFile))
	}
	if err != nil {
		return fmt.Errorf("note what was copied: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Prepared is a database that no server uses until Close, and how much of it is in the folder.
type Prepared struct {
	db       *pgdb.DB
	held     *holding
	folder   string
	progress progress
}

// ErrNoData says that a database has no tables of a server.
var ErrNoData = errors.New("the database has no apps, notifications or anything else of a Godwit server")

// Prepare keeps servers away from a database. It fails with a HeldError if some run.
func Prepare(ctx context.Context, folder, url string, log *slog.Logger) (p *Prepared, err error) {
	db, err := pgdb.Connect(ctx, pgdb.Config{URL: url, MaxConns: 3, Now: time.Now, Log: log})
	if err != nil {
		return nil, err
	}
	p = &Prepared{db: db, folder: folder}
	if p.held, err = hold(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	there := false
	err = p.held.unused(ctx)
	if err == nil {
		err = db.Pool().QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'godwit_app' AND tablename = 'app')").Scan(&there)
	}
	if err == nil && !there {
		err = ErrNoData
	}
	if err == nil {
		err = Finished(ctx, db)
	}
	if err != nil {
		p.Close(ctx)
		return nil, err
	}
	return p, nil
}

// Close lets servers use the database again.
func (p *Prepared) Close(ctx context.Context) {
	p.held.release(ctx)
	p.db.Close()
}

// From names the database and its last use by a server.
func (p *Prepared) From(ctx context.Context) (string, error) {
	err := p.identify(ctx, &p.progress)
	return fmt.Sprintf("%s/%d", p.progress.Database, p.progress.Used), err
}

func (p *Prepared) identify(ctx context.Context, into *progress) (err error) {
	if into.Used, err = pgdb.LastUse(ctx, p.held.conn.Conn()); err != nil {
		return err
	}
	return pgdb.Error("read the database's name", p.held.conn.QueryRow(ctx, "SELECT name FROM godwit_lease.shared").Scan(&into.Database))
}

// Schemas lists the schemas whose names begin with a prefix.
func (p *Prepared) Schemas(ctx context.Context, prefix string) ([]string, error) {
	rows, err := p.db.Pool().Query(ctx, "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1) ORDER BY 1", prefix)
	if err != nil {
		return nil, pgdb.Error("list schemas", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return list, pgdb.Error("list schemas", err)
}

// Resume reads how much is copied. again is false if that is nothing, or something that no longer is what the database has: then the folder's
// files must be removed. Begin notes that the copy begins.
func (p *Prepared) Resume() (again bool, err error) {
	b, err := os.ReadFile(filepath.Join(p.folder, NotesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var was progress
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	if err != nil {
		return false, fmt.Errorf("read what was copied: %w; remove the folder and run the copy again", err)
	}
	if was.Database != p.progress.Database {
		return false, &NotEmptyError{"the data folder", "it is being filled from another database"}
	}
	if again = was.Used == p.progress.Used; again {
		p.progress = was
	}
	return again, nil
}

// Begin notes that the copy begins.
func (p *Prepared) Begin() error {
	p.progress.Parts = make(map[string]partNotes)
	return p.progress.write(p.folder)
}

// End notes that servers may use the folder.
func (p *Prepared) End() error {
	left, err := filepath.Glob(filepath.Join(p.folder, "."+NotesFile+"-*")) // of a killed process
	for _, path := range append(left, filepath.Join(p.folder, NotesFile)) {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("note the end: %w", err)
	}
	return nil
}
