// Package move copies a data folder's SQLite stores into the schemas of a PostgreSQL database, or the schemas into the files of a new
// folder: in slices, so that an interrupted copy can be resumed. Finally it compares both sides. It knows the tables of both, but not their
// meaning. No other process may use either side meanwhile.
package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// A slice consists of the rows of one transaction.
const (
	sliceRows  = 2000
	sliceBytes = 4 << 20
)

// Files are the databases of a data folder.
type Files struct {
	Store                                     string // id of the store that the databases belong to
	Apps, Mailbox, Events, Objects, Campaigns *sqlitedb.DB
	Modules                                   []Module
}

// Config names both sides.
type Config struct {
	Files Files
	URL   string // URL of the PostgreSQL database; the schemas of its stores exist
	// Progress is called with the work under way ("copied", "compared"), the rows done since the previous call, and the rows left. Nil: it
	// is not called.
	Progress func(doing string, rows int, left int64)
	Log      *slog.Logger // nil: discards
}

func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int64) {}
	}
}

// Count is the number of things of a kind that were copied, and are equal on both sides.
type Count struct {
	What   string `json:"what"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // a digest of all of them, in any order
}

// ErrDone says that an earlier run has already copied and compared everything.
var ErrDone = errors.New("everything was copied before")

// unit is a part of the copy in one direction.
type unit interface {
	name() string
	// count returns the number of rows in the source.
	count(ctx context.Context) (int64, error)
	// slices yields the rows of the source after a key, in the order of keys; no key: from the first row.
	slices(ctx context.Context, after []any, yield func(slice) error) error
	// note returns how much is copied.
	note(ctx context.Context) (*note, error)
	// store stores a slice, with the progress.
	store(ctx context.Context, s slice, n *note) error
	// finish does the remaining work when all rows are stored, and notes that the part is done.
	finish(ctx context.Context, n *note) error
	// digest adds the rows of a slice, or of the target, to a sum.
	digest(s slice, sum *digest)
	digestTarget(ctx context.Context, sum *digest) error
}

// mover copies one unit after the other.
type mover struct {
	progress func(doing string, rows int, left int64)
	units    []unit
	total    int64 // rows of the source
	left     int64 // of what is being done
}

// run copies the remaining slices and compares everything.
func (m *mover) run(ctx context.Context) (counts []Count, err error) {
	for _, u := range m.units {
		n, err := u.count(ctx)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", u.name(), err)
		}
		m.total += n
	}
	m.left = m.total
	for _, u := range m.units {
		if err := m.copy(ctx, u); err != nil {
			return nil, fmt.Errorf("copy %s: %w", u.name(), err)
		}
	}
	m.left = m.total
	for _, u := range m.units {
		c, err := m.compare(ctx, u)
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", u.name(), err)
		}
		counts = append(counts, c)
	}
	return counts, nil
}

func (m *mover) did(doing string, rows int) {
	m.left -= int64(rows)
	m.progress(doing, rows, max(m.left, 0))
}

// copy copies the remaining rows of a unit.
func (m *mover) copy(ctx context.Context, u unit) error {
	n, err := u.note(ctx)
	if err != nil {
		return err
	}
	m.left -= n.rows
	if n.done {
		return nil
	}
	err = u.slices(ctx, n.last, func(s slice) error {
		n.last, n.rows = s.last, n.rows+int64(len(s.rows))
		if err := u.store(ctx, s, n); err != nil {
			return err
		}
		m.did("copied", len(s.rows))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	n.done = true
	return u.finish(ctx, n)
}

// DifferentError says that the target differs from the source after the copy.
type DifferentError struct{ What, Source, Target string }

func (e *DifferentError) Error() string {
	return fmt.Sprintf("%s differ: the source has %s, the target %s", e.What, e.Source, e.Target)
}

// compare reads a unit on both sides and compares the digests.
func (m *mover) compare(ctx context.Context, u unit) (Count, error) {
	var source, target digest
	err := u.slices(ctx, nil, func(s slice) error {
		u.digest(s, &source)
		m.did("compared", len(s.rows))
		return ctx.Err()
	})
	if err == nil {
		err = u.digestTarget(ctx, &target)
	}
	if err != nil {
		return Count{}, err
	}
	if source != target {
		return Count{}, &DifferentError{u.name(), source.String(), target.String()}
	}
	return Count{u.name(), source.n, source.hex()}, nil
}
