package move

import (
	"context"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// part is a part of the copy into PostgreSQL: a table, or a replacement for some tables.
type part interface {
	name() string
	file(*Files) *sqlitedb.DB
	// count returns the number of rows in the file.
	count(c *sqlite.Conn) (int64, error)
	// read reads up to a slice of rows after a key; no key: from the first row. The slice contains the key of its last row.
	read(c *sqlite.Conn, after []any) (s slice, err error)
	// write stores a slice.
	write(ctx context.Context, tx tx, s slice) error
	// finish does the remaining work when all rows are written: numbering continues after the last number assigned.
	finish(ctx context.Context, tx tx, c *sqlite.Conn) error
	// digest adds the rows of a slice, or of the database, to a sum.
	digest(s slice, sum *digest)
	digestTarget(ctx context.Context, tx tx, sum *digest) error
}

// toPostgres copies the files into the database.
type toPostgres struct {
	cfg   Config
	db    *pgdb.DB
	held  *holding
	parts []part
}

// ToPostgres copies the remaining slices into a database that holds nothing else, and compares everything.
func ToPostgres(ctx context.Context, cfg Config) (counts []Count, err error) {
	cfg.setDefaults()
	db, err := openNotes(ctx, cfg.URL, cfg.Log)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	t := &toPostgres{cfg: cfg, db: db, parts: newParts()}
	if t.held, err = hold(ctx, db); err != nil {
		return nil, err
	}
	defer t.held.release(ctx)
	if err := db.Do(ctx, "look what is in the database", t.checkTarget); err != nil {
		return nil, err
	}
	if err := t.addModules(ctx); err != nil {
		return nil, err
	}
	m := mover{progress: cfg.Progress}
	for _, p := range t.parts {
		m.units = append(m.units, &filePart{toPostgres: t, part: p})
	}
	counts, err = m.run(ctx)
	if err != nil {
		return nil, err
	}
	return counts, t.end(ctx)
}

// addModules adds the modules' tables to the copied ones.
func (t *toPostgres) addModules(ctx context.Context) error {
	for i := range t.cfg.Files.Modules {
		tables, err := moduleTables(ctx, t.db, &t.cfg.Files.Modules[i])
		if err != nil {
			return err
		}
		for _, table := range tables {
			t.parts = append(t.parts, table)
		}
	}
	return nil
}

// filePart is a part with both its sides.
type filePart struct {
	*toPostgres
	part part
}

var _ unit = (*filePart)(nil)

func (p *filePart) name() string { return p.part.name() }

func (p *filePart) onFile(ctx context.Context, f func(*sqlite.Conn) error) error {
	return p.part.file(&p.cfg.Files).Read(ctx, f)
}

func (p *filePart) count(ctx context.Context) (n int64, err error) {
	err = p.onFile(ctx, func(c *sqlite.Conn) error {
		n, err = p.part.count(c)
		return err
	})
	return n, err
}

func (p *filePart) slices(ctx context.Context, after []any, yield func(slice) error) error {
	for {
		var s slice
		err := p.onFile(ctx, func(c *sqlite.Conn) (err error) {
			s, err = p.part.read(c, after)
			return err
		})
		if err != nil || len(s.rows) == 0 {
			return err
		}
		if err := yield(s); err != nil {
			return err
		}
		after = s.last
	}
}

func (p *filePart) note(ctx context.Context) (*note, error) { return readNote(ctx, p.db, p.name()) }

func (p *filePart) store(ctx context.Context, s slice, n *note) error {
	return p.db.Do(ctx, "copy "+p.name(), func(ctx context.Context, tx tx) error {
		if err := p.part.write(ctx, tx, s); err != nil {
			return err
		}
		return n.save(ctx, tx)
	})
}

func (p *filePart) finish(ctx context.Context, n *note) error {
	return p.db.Do(ctx, "finish "+p.name(), func(ctx context.Context, tx tx) error {
		if err := p.onFile(ctx, func(c *sqlite.Conn) error { return p.part.finish(ctx, tx, c) }); err != nil {
			return err
		}
		return n.save(ctx, tx)
	})
}

func (p *filePart) digest(s slice, sum *digest) { p.part.digest(s, sum) }

func (p *filePart) digestTarget(ctx context.Context, sum *digest) error {
	return inOneView(ctx, p.db, func(ctx context.Context, tx tx) error { return p.part.digestTarget(ctx, tx, sum) })
}
