package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app/backup"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
)

func (p *program) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the databases into one archive, beside a running server",
		Long: `Copy the databases into one archive, beside a running server. With - as the file the archive goes to standard output; the
databases are copied to the folder for temporary files (TMPDIR) before.`,
		Args: exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			if c.Postgres != "" {
				return withHint(errors.New("what is kept in PostgreSQL is backed up with PostgreSQL's own programs, not with godwit backup"),
					"pg_dump -Fc copies the database, but holds a snapshot as long as it runs, and nothing that is deleted meanwhile is removed: "+
						"where that takes more than minutes, use pg_basebackup with WAL archiving, or dump a replica")
			}
			if _, err := os.Stat(c.Data); errors.Is(err, os.ErrNotExist) {
				return withHint(fmt.Errorf("there is no data folder %s", c.Data), "name the server's data folder with --data")
			}
			if args[0] == "-" {
				return p.streamBackup(cmd.Context(), c.Data)
			}
			m, err := backup.Write(cmd.Context(), c.Data, args[0], command.Version)
			if err != nil {
				return err
			}
			if p.json {
				return p.line(m)
			}
			_, err = fmt.Fprintf(p.stdout, "%s holds %s (%s before compression)\n", args[0], strings.Join(m.Databases, ", "), size(m.Bytes))
			return err
		},
	}
	config.AddFlags(cmd.Flags(), "data", "postgres")
	return cmd
}

// streamBackup writes a backup to standard output, and lists its contents on standard error.
func (p *program) streamBackup(ctx context.Context, data string) error {
	if command.Terminal(p.stdout) {
		return withHint(usagef("a backup is no text for a terminal"), "godwit backup FILE writes a file; or send the output on: godwit backup - | ssh HOST 'cat > godwit.backup'")
	}
	m, err := backup.Stream(ctx, data, p.stdout, command.Version)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "the backup holds %s (%s before compression)\n", strings.Join(m.Databases, ", "), size(m.Bytes))
	return nil
}

func (p *program) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Unpack a backup into an empty data folder",
		Args:  exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			m, err := backup.Restore(cmd.Context(), args[0], c.Data)
			if err != nil && p.hintFor(err) == "" {
				return withHint(err, "nothing was restored; name a file that godwit backup wrote, and whole: compare its size with the original's")
			}
			if err != nil {
				return err
			}
			if p.json {
				return p.line(m)
			}
			_, err = fmt.Fprintf(p.stdout, "%s holds %s as of %s\n", c.Data, strings.Join(m.Databases, ", "), m.CreatedAt.Local().Format("2006-01-02 15:04:05"))
			return err
		},
	}
	config.AddFlags(cmd.Flags(), "data")
	return cmd
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
}
