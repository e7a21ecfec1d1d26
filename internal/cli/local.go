package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/config"
	"godwit.dev/godwit/internal/store"
)

// settings loads what the command's flags, the environment and the file say.
func (p *program) settings(cmd *cobra.Command) (*config.Config, error) {
	c, err := config.Load(cmd.Flags(), p.environ)
	if err != nil {
		return nil, fmt.Errorf("bad configuration: %w", err)
	}
	return c, nil
}

// withAccess opens the apps of the data folder, or of the nodes' database, which servers may be using at the same time: they
// notice changes within a second.
func (p *program) withAccess(cmd *cobra.Command, create bool, do func(ctx context.Context, r *access.Registry) error) (err error) {
	c, err := p.settings(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	log := slog.New(slog.DiscardHandler)
	apps, closeApps, err := store.OpenApps(ctx, store.Config{Data: c.Data, Postgres: c.Postgres}, create)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return withHint(fmt.Errorf("there are no apps in %s", c.Data), "name the server's data folder with --data, or make an app with godwit app create")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeApps()) }()
	r, err := access.NewRegistry(ctx, apps.Access, access.Config{AllowPrivateURLs: c.AllowPrivateURLs}, log)
	if err != nil {
		return err
	}
	defer r.Close()
	return do(ctx, r)
}

// dataFlags declares the flags of commands that work on what a server keeps.
func dataFlags(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags(), "data", "postgres", "allow_private_urls")
}
