package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (p *program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring what is stored to another database",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.migrateToPostgresCommand(), p.migrateToSQLiteCommand())
	return cmd
}

func (p *program) migrateToPostgresCommand() *cobra.Command {
	return p.moveCommand(&cobra.Command{
		Use:   "sqlite-to-postgres DATA",
		Short: "Copy a data folder into the PostgreSQL database that nodes share",
		Long: `Copy everything in the data folder of a server that is stopped into an empty PostgreSQL database, and compare both. Ids, seqs and
positions stay, so clients continue where they were. It may be interrupted at any moment: run it again, and it goes on where it was. The
folder stays as it is; do not start a server on it without postgres afterwards.`,
	}, &move{
		run:     store.MoveToPostgres,
		mustBe:  true,
		inUse:   "stop the server before copying what it uses",
		full:    "name an empty database; what was copied is never mixed with anything else",
		already: "everything in %s was copied before\n",
		done:    "the database has what %s has; start the nodes with postgres set, and keep the folder until you are sure",
	})
}

func (p *program) migrateToSQLiteCommand() *cobra.Command {
	return p.moveCommand(&cobra.Command{
		Use:   "postgres-to-sqlite DATA",
		Short: "Copy the PostgreSQL database that nodes share into the data folder of one server",
		Long: `Copy everything in the PostgreSQL database of nodes that are all stopped into a data folder without a store, and compare both. Ids,
seqs and positions stay, so clients continue where they were. It may be interrupted at any moment: run it again, and it goes on where it
was, or starts anew if a node has run meanwhile. The database stays as it is; do not start a node on it afterwards.`,
	}, &move{
		run:     store.MoveToFiles,
		inUse:   "name another folder, or stop the server that uses it",
		full:    "name a folder without a store; what was copied is never mixed with anything else",
		already: "everything was copied into %s before\n",
		done:    "%s has what the database has; start one server on it without postgres, and keep the database until you are sure",
	})
}

// move is one direction of a copy between a data folder and a database, and the messages of its command.
type move struct {
	run    func(context.Context, store.MoveConfig) ([]store.Moved, error)
	mustBe bool // the folder must exist
	// Hints if the folder is in use, and if the target is not empty; and messages with the folder.
	inUse, full, already, done string
}

func (p *program) moveCommand(cmd *cobra.Command, m *move) *cobra.Command {
	cmd.Args = exactly("folder")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.settings(cmd)
		if err != nil {
			return err
		}
		if c.Postgres == "" {
			return usagef("name the database with --postgres, GODWIT_POSTGRES or in godwit.toml")
		}
		return p.move(cmd.Context(), m, args[0], c.Postgres)
	}
	config.AddFlags(cmd.Flags(), "postgres")
	return cmd
}

func (p *program) move(ctx context.Context, m *move, data, url string) (err error) {
	if _, err := os.Stat(data); m.mustBe && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no data folder %s", data)
	}
	lock, err := datadir.Acquire(data)
	var inUse *datadir.InUseError
	if errors.As(err, &inUse) {
		return withHint(err, "%s", m.inUse)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	shown := &moveMeter{p: p}
	list, err := m.run(ctx, store.MoveConfig{Data: data, Postgres: url, Tables: app.Tables(p.modules), Progress: shown.add})
	shown.done()
	var notEmpty *store.NotEmptyError
	var held *store.HeldError
	switch {
	case errors.Is(err, store.ErrMoved):
		fmt.Fprintf(p.stderr, m.already, data)
		return nil
	case errors.As(err, &notEmpty):
		return withHint(err, "%s", m.full)
	case errors.As(err, &held):
		return withHint(err, "stop all nodes first; one that was killed is gone 15 s later")
	case errors.Is(err, store.ErrNoData):
		return withHint(err, "look which database --postgres, GODWIT_POSTGRES or godwit.toml names")
	case ctx.Err() != nil:
		return withHint(errors.New("it was interrupted"), "run it again: it goes on where it was")
	case err != nil:
		return err
	}
	return p.reportMove(fmt.Sprintf(m.done, data), list)
}

// moveMeter shows the progress of a copy, on a meter for each kind of work.
type moveMeter struct {
	p *program
	m *meter
}

func (s *moveMeter) add(doing string, rows int, left int64) {
	if s.m == nil || s.m.what != doing {
		s.m = s.p.meter(doing, 0)
	}
	s.m.read = s.m.n + int64(rows)
	s.m.total = s.m.read + left
	s.m.add(rows)
}

func (s *moveMeter) done() {
	if s.m != nil {
		s.m.done()
	}
}

func (p *program) reportMove(done string, list []store.Moved) error {
	if p.json {
		for _, one := range list {
			if err := p.line(one); err != nil {
				return err
			}
		}
		return nil
	}
	for _, one := range list {
		if one.Rows > 0 {
			if _, err := fmt.Fprintf(p.stdout, "%10d %s\n", one.Rows, one.What); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s\n", p.paint(green, "ok  "), done)
	return err
}
