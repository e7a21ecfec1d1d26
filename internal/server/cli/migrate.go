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
	cmd.AddCommand(p.migrateToPostgresCommand())
	return cmd
}

func (p *program) migrateToPostgresCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sqlite-to-postgres DATA",
		Short: "Copy a data folder into the PostgreSQL database that nodes share",
		Long: `Copy everything in the data folder of a server that is stopped into an empty PostgreSQL database, and compare both. Ids, seqs and
positions stay, so clients continue where they were. It may be interrupted at any moment: run it again, and it goes on where it was. The
folder stays as it is; do not start a server on it without postgres afterwards.`,
		Args: exactly("folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			if c.Postgres == "" {
				return usagef("name the database with --postgres, GODWIT_POSTGRES or in godwit.toml")
			}
			return p.moveToPostgres(cmd.Context(), args[0], c.Postgres)
		},
	}
	config.AddFlags(cmd.Flags(), "postgres")
	return cmd
}

func (p *program) moveToPostgres(ctx context.Context, data, url string) (err error) {
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no data folder %s", data)
	}
	lock, err := datadir.Acquire(data)
	var inUse *datadir.InUseError
	if errors.As(err, &inUse) {
		return withHint(err, "stop the server before copying what it uses")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	var m *meter
	list, err := store.MoveToPostgres(ctx, store.MoveConfig{
		Data: data, Postgres: url, Tables: app.Tables(p.modules),
		Progress: func(doing string, rows int, left int64) {
			if m == nil || m.what != doing {
				m = p.meter(doing, 0)
			}
			m.read = m.n + int64(rows)
			m.total = m.read + left
			m.add(rows)
		},
	})
	if m != nil {
		m.done()
	}
	var notEmpty *store.NotEmptyError
	switch {
	case errors.Is(err, store.ErrMoved):
		fmt.Fprintf(p.stderr, "everything in %s was copied before\n", data)
		return nil
	case errors.As(err, &notEmpty):
		return withHint(err, "name an empty database; what was copied is never mixed with anything else")
	case ctx.Err() != nil:
		return withHint(errors.New("it was interrupted"), "run it again: it goes on where it was")
	case err != nil:
		return err
	}
	return p.reportMove(data, list)
}

func (p *program) reportMove(data string, list []store.Moved) error {
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
	_, err := fmt.Fprintf(p.stdout, "%s the database has what %s has; start the nodes with postgres set, and keep the folder until you are sure\n", p.paint(green, "ok  "), data)
	return err
}
