package move

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// returning is a part of the copy into files.
type returning interface {
	name() string
	file(*Files) *sqlitedb.DB
	// count returns the number of rows in the database, or about that.
	count(ctx context.Context, tx tx) (int64, error)
	// readAll yields the rows after a key in slices, in the order of keys; no key: all rows.
	readAll(ctx context.Context, tx tx, after []any, yield func(slice) error) error
	// keep returns those rows of a slice that the file shall have.
	keep(c *sqlite.Conn, rows [][]any) ([][]any, error)
	// write stores a slice. Some of its rows may exist already.
	write(c *sqlite.Conn, s slice) error
	// finish does the remaining work when all rows are written: numbering continues after the last number assigned.
	finish(ctx context.Context, tx tx, db *sqlitedb.DB) error
	// digest adds the rows of a slice, or of the file, to a sum.
	digest(s slice, sum *digest)
	digestFile(c *sqlite.Conn, sum *digest) error
}

// toFiles copies the database into the files.
type toFiles struct {
	cfg Config
	*Prepared
}

// ToFiles copies the remaining slices into the files of a folder that Prepare has made ready, and compares everything.
func ToFiles(ctx context.Context, cfg Config, p *Prepared) (counts []Count, err error) {
	cfg.setDefaults()
	t := &toFiles{cfg, p}
	parts := returningParts()
	for i := range cfg.Files.Modules {
		tables, err := moduleTables(ctx, t.db, &cfg.Files.Modules[i])
		if err != nil {
			return nil, err
		}
		for _, table := range tables {
			parts = append(parts, table.back())
		}
	}
	m := mover{progress: cfg.Progress}
	for _, part := range parts {
		m.units = append(m.units, &tablePart{toFiles: t, part: part})
	}
	if counts, err = m.run(ctx); err != nil {
		return nil, err
	}
	return counts, t.unchanged(ctx)
}

// errUsed says that the copy may lack what a server has stored meanwhile.
var errUsed = errors.New("a server has used the database meanwhile; run the copy again: it starts anew")

// unchanged checks that no server has used the database since the copy began.
func (t *toFiles) unchanged(ctx context.Context) error {
	if err := t.held.unused(ctx); err != nil {
		return err
	}
	var now progress
	err := t.identify(ctx, &now)
	if err == nil && now.Used != t.progress.Used {
		err = errUsed
	}
	return err
}

// tablePart is a part with both its sides.
type tablePart struct {
	*toFiles
	part returning
}

var _ unit = (*tablePart)(nil)

func (p *tablePart) name() string { return p.part.name() }

func (p *tablePart) target() *sqlitedb.DB { return p.part.file(&p.cfg.Files) }

func (p *tablePart) count(ctx context.Context) (n int64, err error) {
	err = inOneView(ctx, p.db, func(ctx context.Context, tx tx) error {
		n, err = p.part.count(ctx, tx)
		return err
	})
	return n, err
}

func (p *tablePart) slices(ctx context.Context, after []any, yield func(slice) error) error {
	return inOneView(ctx, p.db, func(ctx context.Context, tx tx) error {
		return p.part.readAll(ctx, tx, after, func(s slice) error {
			err := p.target().Read(ctx, func(c *sqlite.Conn) (err error) {
				s.rows, err = p.part.keep(c, s.rows)
				return err
			})
			if err != nil {
				return err
			}
			return yield(s)
		})
	})
}

func (p *tablePart) note(context.Context) (*note, error) { return p.progress.note(p.name()) }

// store notes the progress after the commit: a slice that was stored and not noted is stored again.
func (p *tablePart) store(ctx context.Context, s slice, n *note) error {
	if err := p.target().Do(ctx, func(c *sqlite.Conn) error { return p.part.write(c, s) }); err != nil {
		return err
	}
	return p.progress.save(p.folder, n)
}

func (p *tablePart) finish(ctx context.Context, n *note) error {
	err := inOneView(ctx, p.db, func(ctx context.Context, tx tx) error { return p.part.finish(ctx, tx, p.target()) })
	if err != nil {
		return err
	}
	return p.progress.save(p.folder, n)
}

func (p *tablePart) digest(s slice, sum *digest) { p.part.digest(s, sum) }

func (p *tablePart) digestTarget(ctx context.Context, sum *digest) error {
	return p.target().Read(ctx, func(c *sqlite.Conn) error { return p.part.digestFile(c, sum) })
}

// returningParts lists the parts of the way back: rows beside copies come after these.
func returningParts() (list []returning) {
	var beside []returning
	for _, p := range newParts() {
		switch p := p.(type) {
		case *table:
			switch b := p.back(); {
			case p.backPart != nil:
				beside = append(beside, p.backPart(b))
			case b.among:
				beside = append(beside, b)
			default:
				list = append(list, b)
			}
		case *recipients:
			list = append(list, p.back())
		case *copies:
			list = append(list, &leaving{})
		default:
			panic(fmt.Sprintf("%s has no way back", p.name())) // TestEveryTableIsCopied fails then
		}
	}
	return append(list, beside...)
}
