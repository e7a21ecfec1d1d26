// Package sqlitedb has what all SQLite files of the server share: opening with the right pragmas, migrations, a writer that commits in
// groups, checkpoints off the write path, read connections, disk headroom and online copies.
package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitemigration"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
)

// ErrClosed is the error for work submitted to a database that is closing.
var ErrClosed = errors.New("database is closed")

// Bytes of the page caches of a connection. They hold the inner pages of large indexes; other pages are in the system's cache, a short
// system call away. Larger caches made no measured operation faster, and each byte costs two of the process: a page of 4096 bytes with its
// header takes 8 KB from the C allocator, which never returns them.
const (
	writeCache = 1 << 20
	readCache  = 256 << 10
)

// Options control how a database file is opened. The zero value of each field but AppID and Migrations is a good default.
type Options struct {
	AppID      int32    // application_id, which distinguishes the server's files from others and from each other
	Migrations []string // SQL scripts in order; never change one that was released, append

	PageSize    int           // bytes; 0: 4096. Only matters when the file is created
	Readers     int           // most reading connections; 0: 4
	BusyTimeout time.Duration // how long to wait for locks of other processes (backup, command line); 0: 10 s
	WALRestart  int64         // size of the log in bytes from which the writer restarts it; 0: 32 MB
	WALCap      int64         // size of the log in bytes that at most one commit exceeds; 0: 256 MB
	CopyAfter   int64         // uncopied bytes in the log after which it is copied into the file without waiting for the next tick; 0: 8 MB
	VFS         string        // name of the registered VFS beneath; empty: the default one. For fault injection
	Guard       Guard         // knowledge about the file before it is opened, and callbacks for damage
	Shared      bool          // other processes write to the file as well
	Lax         bool          // commits are not synced one by one: see checkvfs.Options
	Hooks       Hooks         // the owner's functions, called around each commit

	// Fatal is called once if data that was reported as written may not be on disk (fsync failed): the program must exit with an error. No
	// more writes are acknowledged. Nil: only the callers get the error.
	Fatal func(error)
	Log   *slog.Logger // nil: discards
}

// Guard holds what the store knows about a file before it is opened. The zero value makes no checks.
type Guard struct {
	Store   checkvfs.ID // the store to which the file must belong
	Checked bool        // the file had checksums, so missing ones are damage

	// Damaged is called once if damage is found. No more writes are acknowledged then; undamaged data can still be read. Nil: only the
	// callers get the error.
	Damaged func(error)
}

func (o *Options) setDefaults() {
	setDefault(&o.PageSize, 4096)
	setDefault(&o.Readers, 4)
	setDefault(&o.BusyTimeout, 10*time.Second)
	setDefault(&o.WALRestart, 32<<20)
	setDefault(&o.WALCap, 256<<20)
	setDefault(&o.CopyAfter, 8<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// DB is one database file with its writer, its checkpointer and its reading connections.
type DB struct {
	path string
	uri  string
	opts Options
	file *checkvfs.File
	w    *writer
	ckpt *checkpointer

	readers chan *sqlite.Conn // nil entries are connections not opened yet
	reading *fair.Places      // as many places as there are connections
	closing chan struct{}
	once    sync.Once
	err     error
}

// Open opens or creates the file, migrates it, and starts its writer. prepare, if not nil, runs on the writing
// connection before anything else may write.
func Open(ctx context.Context, path string, o Options, prepare func(*sqlite.Conn) error) (*DB, error) {
	o.setDefaults()
	db := &DB{path: path, opts: o, readers: make(chan *sqlite.Conn, o.Readers), reading: fair.NewPlaces(o.Readers), closing: make(chan struct{})}
	if err := db.open(ctx, prepare); err != nil {
		if isDamage(sqlite.ErrCode(err)) {
			err = &DamageError{Path: path, Err: err}
		}
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, prepare func(*sqlite.Conn) error) error {
	vfs, err := checkvfs.On(db.opts.VFS)
	if err != nil {
		return err
	}
	keepScratch()
	db.uri = fileURI(db.path, vfs)
	db.w = newWriter(db) // set before the file is opened, since the writer may be informed of damage immediately
	if db.file, err = checkvfs.Open(db.path, checkvfs.Options{
		Expected: db.opts.Guard.Checked, Store: db.opts.Guard.Store, Shared: db.opts.Shared, Lax: db.opts.Lax, Damaged: db.w.damaged,
	}); err != nil {
		return err
	}
	if err = makePrivate(db.path); err != nil {
		return errors.Join(err, db.file.Close())
	}
	if db.w.conn, err = db.openWriting(ctx); err != nil {
		return errors.Join(err, db.file.Close())
	}
	if prepare != nil {
		err = prepare(db.w.conn)
	}
	if err == nil {
		db.ckpt, err = newCheckpointer(db)
	}
	if err != nil {
		return errors.Join(err, db.w.conn.Close(), db.file.Close())
	}
	for range db.opts.Readers {
		db.readers <- nil
	}
	go db.w.run()
	return nil
}

func (db *DB) openWriting(ctx context.Context) (*sqlite.Conn, error) {
	conn, err := db.connect(writeCache)
	if err != nil {
		return nil, err
	}
	err = pragmas(conn, fmt.Sprintf("page_size=%d", db.opts.PageSize), "journal_mode=wal")
	if err == nil {
		err = migrate(ctx, conn, &db.opts)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func migrate(ctx context.Context, conn *sqlite.Conn, o *Options) error {
	version, err := queryInt(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if int(version) > len(o.Migrations) {
		return fmt.Errorf("the file has schema version %d, this program knows %d: it was written by a newer version", version, len(o.Migrations))
	}
	return sqlitemigration.Migrate(ctx, conn, sqlitemigration.Schema{AppID: o.AppID, Migrations: o.Migrations})
}

// connect opens one more connection, with the pragmas of each connection.
func (db *DB) connect(cache int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(db.uri, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(db.opts.BusyTimeout)
	// No transaction may spill into the log before it commits: when what has spilled is then rolled back to a savepoint, the
	// commit is written with frames that no recovery takes (https://sqlite.org/forum/forumpost/b490f726db).
	// Deleting overwrites within pages that are written anyway; Scrub overwrites free pages.
	err = pragmas(conn, "secure_delete=fast", "synchronous=full", "wal_autocheckpoint=0", "cache_spill=0", fmt.Sprintf("cache_size=%d", -cache/1024), "temp_store=memory")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func fileURI(path, vfs string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	if !filepath.IsAbs(path) {
		u.Path, u.Opaque = "", (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	}
	if vfs != "" {
		u.RawQuery = url.Values{"vfs": {vfs}}.Encode()
	}
	return u.String()
}

func pragmas(conn *sqlite.Conn, settings ...string) error {
	for _, s := range settings {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+s, nil); err != nil {
			return fmt.Errorf("set pragma %s: %w", s, err)
		}
	}
	return nil
}

func queryInt(conn *sqlite.Conn, query string) (n int64, err error) {
	err = EachOnce(conn, query, nil, func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	})
	return n, err
}

// Path is the file's path.
func (db *DB) Path() string { return db.path }

// Read runs fn on a reading connection within one snapshot. It never waits for the writer. fn must be quick: an open snapshot prevents
// restarting the log.
func (db *DB) Read(ctx context.Context, fn func(*sqlite.Conn) error) error {
	return db.ReadFor(ctx, "", fn)
}

// ReadFor is Read for an app: apps take turns, and a single app never gets all connections.
func (db *DB) ReadFor(ctx context.Context, app string, fn func(*sqlite.Conn) error) error {
	select {
	case <-db.closing:
		return ErrClosed
	default:
	}
	if err := db.reading.Enter(ctx, app); err != nil {
		return err // the cause of the context's end
	}
	defer db.reading.Leave(app)
	select {
	case conn := <-db.readers:
		return db.readOn(conn, fn)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-db.closing:
		return ErrClosed
	}
}

func (db *DB) readOn(conn *sqlite.Conn, fn func(*sqlite.Conn) error) (err error) {
	defer func() { db.readers <- conn }()
	if conn == nil {
		if conn, err = db.openReading(); err != nil {
			return db.w.judge(fmt.Errorf("open reading connection: %w", err))
		}
	}
	if err := step(conn, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		if end := step(conn, "COMMIT"); end != nil && err == nil {
			err = end
		}
		err = db.w.judge(err)
	}()
	return fn(conn)
}

func (db *DB) openReading() (*sqlite.Conn, error) {
	conn, err := db.connect(readCache)
	if err != nil {
		return nil, err
	}
	if err := pragmas(conn, "query_only=1"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// step runs a statement without rows and keeps it prepared.
func step(conn *sqlite.Conn, query string) error {
	stmt, err := conn.Prepare(query)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return errors.Join(err, stmt.Reset())
}

// NoteCount records the current row counts. Call it before any op is submitted.
func (db *DB) NoteCount() error {
	t, err := db.opts.Hooks.Count(db.w.conn)
	if err == nil {
		err = db.file.NoteCount(t)
	}
	if err != nil {
		return db.w.judge(fmt.Errorf("count what is stored: %w", err))
	}
	return nil
}

// Counted returns the row counts that were recorded when the database was closed; false: it was not closed, or none were recorded.
func (db *DB) Counted() (Tally, bool) { return db.file.Counted() }

// Gone returns an error that names a file in use that was removed, replaced or truncated; nil: none.
func (db *DB) Gone() error { return db.file.Gone() }

// Refuse ends writing for good: no more writes are acknowledged. Readable data can still be read.
func (db *DB) Refuse(err error) {
	var damage *DamageError
	if !errors.As(err, &damage) {
		err = &DamageError{Path: db.path, Err: err}
	}
	db.w.refuse(err, "", nil)
}

// Close waits for submitted ops, copies the log into the file and closes all connections.
func (db *DB) Close() error {
	db.once.Do(func() { db.err = db.close() })
	return db.err
}

func (db *DB) close() error {
	db.w.close()
	close(db.closing)
	db.ckpt.close()
	var errs []error
	for range cap(db.readers) {
		if conn := <-db.readers; conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	// Closing the last connection copies the log into the file and removes the log.
	errs = append(errs, db.w.conn.Close(), db.file.Close())
	return errors.Join(errs...)
}
