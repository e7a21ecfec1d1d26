package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
)

// sections returns the settings of modules.
func (p *program) sections() []config.Section { return app.Sections(p.modules) }

// settingFlags declares a flag for every setting.
func (p *program) settingFlags(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags())
	config.AddSectionFlags(cmd.Flags(), p.sections())
}

// addModules adds the commands of modules; a name that already exists is an error.
func (p *program) addModules(root *cobra.Command) error {
	owners := make(map[string]string)
	for _, c := range root.Commands() {
		owners[c.Name()] = "the server"
	}
	for _, m := range p.modules {
		if m.Commands == nil {
			continue
		}
		for _, c := range m.Commands(p) {
			if other, taken := owners[c.Name()]; taken {
				return fmt.Errorf("module %s brings the command %s, which %s has", m.Name, c.Name(), other)
			}
			owners[c.Name()] = "module " + m.Name
			root.AddCommand(c)
		}
	}
	return nil
}

// Call implements module.Program.
func (p *program) Call(ctx context.Context, method, path string, in, out any) error {
	return p.withClient(func(c *godwit.Client) error {
		return c.Call(ctx, godwit.Call{Method: method, Path: path, Body: in}, out)
	})
}

// Table implements module.Program.
func (p *program) Table(headings []string, rows [][]string) error { return p.table(headings, rows) }
