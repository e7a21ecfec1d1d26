// Package move copies a data folder's SQLite stores into the schemas of a PostgreSQL database, in slices, so that an interrupted copy can
// be resumed, and finally compares both sides. It knows the tables of both, but not their meaning. No other process may use either side
// meanwhile.
package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// A slice consists of the rows of one transaction, which also records the progress.
const (
	sliceRows  = 2000
	sliceBytes = 4 << 20
)

// Sources are the databases of a data folder.
type Sources struct {
	Store                                     string // id of the store that the databases belong to
	Apps, Mailbox, Events, Objects, Campaigns *sqlitedb.DB
	Modules                                   []Module
}

// Config names the source and the target.
type Config struct {
	From Sources
	URL  string // URL of the PostgreSQL database; the schemas of its stores exist, and are empty
	// Progress is called with the work under way ("copied", "compared"), the rows done since the previous call, and the rows left. Nil: it
	// is not called.
	Progress func(doing string, rows int, left int64)
	Log      *slog.Logger // nil: discards
}

// Count is the number of things of a kind that were copied, and are equal on both sides.
type Count struct {
	What   string `json:"what"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // a digest of all of them, in any order
}

// part is a unit of the copy: a table, or a replacement for some tables.
type part interface {
	name() string
	from(*Sources) *sqlitedb.DB
	// count returns the number of rows in the source.
	count(c *sqlite.Conn) (int64, error)
	// read reads up to a slice of rows after a key; no key: from the first row. The slice contains the key of its last row.
	read(c *sqlite.Conn, after []any) (s slice, err error)
	// write stores a slice.
	write(ctx context.Context, tx tx, s slice) error
	// finish does the remaining work when all rows are written: numbering continues after the last number assigned.
	finish(ctx context.Context, tx tx, c *sqlite.Conn) error
	// digest adds the rows of a slice, or of the target, to a sum.
	digest(s slice, sum *digest)
	digestTarget(ctx context.Context, tx tx, sum *digest) error
}

// mover copies one part after the other.
type mover struct {
	cfg   Config
	db    *pgdb.DB
	parts []part
	total int64 // rows of the source
	left  int64 // of what is being done
}

// ErrDone says that an earlier run has already copied and compared everything.
var ErrDone = errors.New("everything was copied before")

// Run copies the remaining slices and compares everything.
func Run(ctx context.Context, cfg Config) (counts []Count, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, int, int64) {}
	}
	db, err := openNotes(ctx, cfg.URL, cfg.Log)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	m := &mover{cfg: cfg, db: db, parts: newParts()}
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := m.addModules(ctx); err != nil {
		return nil, err
	}
	if err := m.countAll(ctx); err != nil {
		return nil, err
	}
	m.left = m.total
	for _, p := range m.parts {
		if err := m.copy(ctx, p); err != nil {
			return nil, fmt.Errorf("copy %s: %w", p.name(), err)
		}
	}
	m.left = m.total
	for _, p := range m.parts {
		c, err := m.compare(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", p.name(), err)
		}
		counts = append(counts, c)
	}
	return counts, m.end(ctx)
}

// addModules adds the modules' tables to the copied ones.
func (m *mover) addModules(ctx context.Context) error {
	for i := range m.cfg.From.Modules {
		var more []part
		if err := m.db.Do(ctx, "read the columns of a module", func(ctx context.Context, tx tx) (err error) {
			more, err = moduleParts(ctx, tx, &m.cfg.From.Modules[i])
			return err
		}); err != nil {
			return err
		}
		m.parts = append(m.parts, more...)
	}
	return nil
}

func (m *mover) countAll(ctx context.Context) error {
	for _, p := range m.parts {
		err := p.from(&m.cfg.From).Read(ctx, func(c *sqlite.Conn) error {
			n, err := p.count(c)
			m.total += n
			return err
		})
		if err != nil {
			return fmt.Errorf("count %s: %w", p.name(), err)
		}
	}
	return nil
}

func (m *mover) progress(doing string, rows int) {
	m.left -= int64(rows)
	m.cfg.Progress(doing, rows, max(m.left, 0))
}

// copy copies the remaining rows of a part.
func (m *mover) copy(ctx context.Context, p part) error {
	n, err := m.note(ctx, p.name())
	if err != nil {
		return err
	}
	m.left -= n.rows
	for !n.done {
		s, err := m.read(ctx, p, n.last)
		if err != nil {
			return err
		}
		if len(s.rows) > 0 {
			n.last, n.rows = s.last, n.rows+int64(len(s.rows))
		} else {
			n.done = true
		}
		err = m.db.Do(ctx, "copy "+p.name(), func(ctx context.Context, tx tx) error {
			if n.done {
				err = m.finish(ctx, tx, p)
			} else {
				err = p.write(ctx, tx, s)
			}
			if err != nil {
				return err
			}
			return n.save(ctx, tx)
		})
		if err != nil {
			return err
		}
		m.progress("copied", len(s.rows))
	}
	return nil
}

func (m *mover) finish(ctx context.Context, tx tx, p part) error {
	return p.from(&m.cfg.From).Read(ctx, func(c *sqlite.Conn) error { return p.finish(ctx, tx, c) })
}

func (m *mover) read(ctx context.Context, p part, after []any) (s slice, err error) {
	err = p.from(&m.cfg.From).Read(ctx, func(c *sqlite.Conn) error {
		s, err = p.read(c, after)
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	return s, err
}

// DifferentError says that the target differs from the source after the copy.
type DifferentError struct{ What, Source, Target string }

func (e *DifferentError) Error() string {
	return fmt.Sprintf("%s differ: the data folder has %s, the database %s", e.What, e.Source, e.Target)
}

// compare reads a part on both sides and compares the digests.
func (m *mover) compare(ctx context.Context, p part) (Count, error) {
	var source, target digest
	var after []any
	for {
		s, err := m.read(ctx, p, after)
		if err != nil {
			return Count{}, err
		}
		if len(s.rows) == 0 {
			break
		}
		p.digest(s, &source)
		after = s.last
		m.progress("compared", len(s.rows))
	}
	if err := m.inOneView(ctx, func(ctx context.Context, tx tx) error { return p.digestTarget(ctx, tx, &target) }); err != nil {
		return Count{}, err
	}
	if source != target {
		return Count{}, &DifferentError{p.name(), source.String(), target.String()}
	}
	return Count{p.name(), source.n, source.hex()}, nil
}
