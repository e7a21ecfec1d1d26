package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/internal/access"
)

// localNames returns the names in a data folder, or in the nodes' database, for a command.
type localNames func(cmd *cobra.Command, r *access.Registry) []string

// localCompletions holds the sources of the first argument's completions, by command path, for commands that work on a data folder.
var localCompletions = map[string]localNames{
	"app set":             appNames,
	"app delete":          appNames,
	"app allow-anonymous": appNames,
	"key delete":          keyNames,
}

func appNames(_ *cobra.Command, r *access.Registry) (list []string) {
	for _, a := range r.Apps() {
		list = append(list, a.Name)
	}
	return list
}

// keyNames returns the ids of the keys of the app in --app, each with the key's purpose.
func keyNames(cmd *cobra.Command, r *access.Registry) (list []string) {
	named, _ := cmd.Flags().GetString("app") // without the flag, a command uses the only app
	a, err := r.App(named)
	if err != nil {
		return nil
	}
	for _, k := range r.Keys(a.Name) {
		list = append(list, cobra.CompletionWithDesc(k.ID, clean(k.Name)))
	}
	return list
}

// completeLocal lets shells complete names from a data folder: for the first argument, and for --app.
func (p *program) completeLocal(cmd *cobra.Command, path string) {
	if names, ok := localCompletions[path]; ok {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.namesIn(cmd, names), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if hasLocal(cmd, "app") && cmd.Flag("data") != nil {
		_ = cmd.RegisterFlagCompletionFunc("app", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) { // fails only if the flag already has a completion
			return p.namesIn(cmd, appNames), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

func hasLocal(cmd *cobra.Command, flag string) (has bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { has = has || f.Name == flag })
	return has
}

// namesIn reads names from the stores that the command itself would open, but creates nothing. If it cannot read them, it returns none.
func (p *program) namesIn(cmd *cobra.Command, names localNames) (list []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	cmd.SetContext(ctx)
	if p.withAccess(cmd, false, func(_ context.Context, r *access.Registry) error {
		list = names(cmd, r)
		return nil
	}) != nil {
		return nil
	}
	slices.Sort(list)
	return list
}
