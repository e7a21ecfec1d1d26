package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/internal/server/config"
)

// commandGroups lists the commands by purpose.
var commandGroups = []struct {
	id, title string
	commands  []string
}{
	{"start", "Start:", []string{"serve", "login", "context", "examples", "version"}},
	{"send", "Send:", []string{"publish", "recall", "campaign", "template", "segment", "topic", "object", "request", "channel", "category", "endpoint", "import"}},
	{"receive", "Receive:", []string{"listen", "serve-subject", "hook", "sink", "source"}},
	{"look", "Look:", []string{"status", "why", "events", "recipient", "inbox", "digest", "top", "audit"}},
	{"people", "People and keys:", []string{"app", "key", "token", "operator", "preferences"}},
	{"operate", "Operate:", []string{"doctor", "config", "backup", "restore", "migrate", "cluster", "drain", "ready", "bench"}},
}

// group puts the commands into groups, and adds the page about settings.
func (p *program) group(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(g.commands, cmd.Name()) {
				cmd.GroupID = g.id
			}
		}
	}
	root.AddCommand(&cobra.Command{Use: "settings", Short: "Settings of the server, by section", Long: p.settingsPage()})
}

// settingsPage describes all settings.
func (p *program) settingsPage() string {
	var b strings.Builder
	b.WriteString("A setting is a flag of godwit serve (--http-addr), a variable (GODWIT_HTTP_ADDR) or a line of godwit.toml (http_addr = \"127.0.0.1:8080\"), in this\n" +
		"order of precedence. godwit config show prints the present values, godwit config check tries a file.\n")
	section := ""
	for _, f := range config.Known(p.sections()...) {
		if f.Group != section {
			section = f.Group
			fmt.Fprintf(&b, "\n%s\n", section)
		}
		value := ""
		if f.Default != "" {
			value = " (default " + f.Default + ")"
		}
		fmt.Fprintf(&b, "  %-28s %s%s\n", f.Key, f.Help, value)
	}
	return strings.TrimRight(b.String(), "\n")
}

// inSections makes the help of a command list the flags of settings by section, after its own.
func (p *program) inSections(cmd *cobra.Command) {
	of := map[string]string{}
	var sections []string
	for _, f := range config.Known(p.sections()...) {
		of[f.Flag] = f.Group
		if !slices.Contains(sections, f.Group) {
			sections = append(sections, f.Group)
		}
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		sets := map[string]*pflag.FlagSet{}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			section := of[f.Name]
			if sets[section] == nil {
				sets[section] = pflag.NewFlagSet(section, pflag.ContinueOnError)
				sets[section].SortFlags = false
			}
			sets[section].AddFlag(f)
		})
		for _, section := range append([]string{""}, sections...) {
			if set := sets[section]; set != nil {
				title := section
				if title == "" {
					title = "Flags"
				}
				fmt.Fprintf(w, "\n%s:\n%s", title, set.FlagUsages())
			}
		}
		_, err := fmt.Fprintf(w, "\nGlobal Flags:\n%s", cmd.InheritedFlags().FlagUsages())
		return err
	})
}
