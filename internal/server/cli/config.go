package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/config"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or show the server's settings", Args: subcommandOnly, RunE: help}
	cmd.AddCommand(p.configCheckCommand(), p.configShowCommand())
	return cmd
}

func (p *program) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether flags, environment and file make good settings",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			for _, name := range config.UnknownEnv(p.environ, p.sections()...) {
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
	p.settingFlags(cmd)
	return cmd
}

func (p *program) configShowCommand() *cobra.Command {
	var reference bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and where that comes from",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reference {
				_, err := fmt.Fprint(p.stdout, config.Reference(p.sections()...))
				return err
			}
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			return p.showSettings(c)
		},
	}
	cmd.Flags().BoolVar(&reference, "reference", false, "print the reference page of all settings (Markdown)")
	p.settingFlags(cmd)
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
