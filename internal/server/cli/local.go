package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

// settings loads the settings from the command's flags, the environment and the file.
func (p *program) settings(cmd *cobra.Command) (*config.Config, error) {
	c, err := config.Load(cmd.Flags(), p.environ, p.sections()...)
	if err == nil {
		return c, nil
	}
	err = fmt.Errorf("bad configuration: %w", err)
	var theirs *config.CompatError
	switch {
	case p.hintFor(err) != "":
	case errors.As(err, &theirs):
		return nil, withHint(err, "godwit config check --compat nammayatri --compat-config %s tries the file; its forms are Dhall, the output of dhall-to-json, and TOML", theirs.File)
	default:
		return nil, withHint(err, `settings are written like http_addr = "127.0.0.1:8080", one a line; godwit config show lists them, godwit config check tries a file`)
	}
	return nil, err
}

// withAccess runs do with the apps of the data folder, or of the nodes' database. Servers may be using it at the same time; they notice
// changes within a second.
func (p *program) withAccess(cmd *cobra.Command, create bool, do func(ctx context.Context, r *access.Registry) error) error {
	return p.withApps(cmd, create, func(ctx context.Context, _ *config.Config, _ *store.Apps, r *access.Registry) error {
		return do(ctx, r)
	})
}

// withApp is withAccess for one app, or the only one if none is named; it also opens the other stores of apps' settings.
func (p *program) withApp(cmd *cobra.Command, named string, do func(ctx context.Context, c *config.Config, apps *store.Apps, app string) error) error {
	return p.withApps(cmd, false, func(ctx context.Context, c *config.Config, apps *store.Apps, r *access.Registry) error {
		a, err := r.App(named)
		if err != nil {
			return err
		}
		return do(ctx, c, apps, a.Name)
	})
}

func (p *program) withApps(cmd *cobra.Command, create bool, do func(ctx context.Context, c *config.Config, apps *store.Apps, r *access.Registry) error) (err error) {
	c, err := p.settings(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	log := slog.New(slog.DiscardHandler)
	if create && c.Postgres == "" {
		defer func(isNew bool) {
			if isNew && err == nil {
				p.sayNewFolder(c.Data)
			}
		}(emptyFolder(c.Data))
	}
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
	return do(ctx, c, &apps, r)
}

// emptyFolder reports whether a data folder is missing or empty.
func emptyFolder(data string) bool {
	entries, err := os.ReadDir(data)
	return len(entries) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// sayNewFolder warns that a data folder was created: a mistake if the server uses another one.
func (p *program) sayNewFolder(data string) {
	if full, err := filepath.Abs(data); err == nil {
		data = full
	}
	fmt.Fprintf(p.stderr, "%s %s is a NEW data folder, made by this command. A server uses it with: godwit serve --data %s\n"+
		"      If the server runs already, it uses another folder and knows nothing of this: name that with --data.\n", p.paint(red, "note:"), data, data)
}

// dataFlags declares the flags of commands that work on a server's stores.
func dataFlags(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags(), "data", "postgres", "allow_private_urls")
}
