package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/app/backup"
	"godwit.dev/godwit/internal/config"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or show the server's settings", Args: subcommandOnly, RunE: help}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say whether flags, environment and file make good settings",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			for _, name := range config.UnknownEnv(p.environ) {
				fmt.Fprintf(p.stderr, "note: %s is not a setting\n", name)
			}
			if p.json {
				return p.line(map[string]bool{"ok": true})
			}
			file, _ := config.File(cmd.Flags(), p.environ)
			if _, err := os.Stat(file); err != nil {
				file = "no file"
			}
			_, err = fmt.Fprintf(p.stdout, "ok (%s, data folder %s)\n", file, c.Data)
			return err
		},
	}
	var reference bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and where that comes from",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reference {
				_, err := fmt.Fprint(p.stdout, config.Reference())
				return err
			}
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			return p.showSettings(c)
		},
	}
	show.Flags().BoolVar(&reference, "reference", false, "print the reference page of all settings (Markdown)")
	config.AddFlags(check.Flags())
	config.AddFlags(show.Flags())
	cmd.AddCommand(check, show)
	return cmd
}

func (p *program) showSettings(c *config.Config) error {
	rows := [][]string{}
	for _, f := range config.Fields(c) {
		if p.json {
			if err := p.line(map[string]string{"key": f.Key, "value": f.Value(), "origin": c.Origin(f.Key), "env": f.Env, "flag": "--" + f.Flag}); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{f.Key, f.Value(), c.Origin(f.Key)})
	}
	if p.json {
		return nil
	}
	return p.table([]string{"KEY", "VALUE", "FROM"}, rows)
}

func (p *program) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the databases into one archive, beside a running server",
		Args:  exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			if _, err := os.Stat(c.Data); errors.Is(err, os.ErrNotExist) {
				return withHint(fmt.Errorf("there is no data folder %s", c.Data), "name the server's data folder with --data")
			}
			m, err := backup.Write(cmd.Context(), c.Data, args[0], Version)
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
	config.AddFlags(cmd.Flags(), "data")
	return cmd
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

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if p.json {
				return p.line(v)
			}
			text := "godwit " + v.Version
			if v.Revision != "" {
				text += " (" + v.Revision + ")"
			}
			_, err := fmt.Fprintf(p.stdout, "%s %s %s\n", text, v.Go, v.Platform)
			return err
		},
	}
}

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	v := versionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) > 12:
			v.Revision = s.Value[:12] + v.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += ", modified"
		}
	}
	return v
}
