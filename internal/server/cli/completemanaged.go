package cli

import (
	"context"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
)

// managedNames returns the names that a server's operator manages, for a command.
type managedNames func(ctx context.Context, cmd *cobra.Command, c *control) []string

// managedCompletions holds the sources of the first argument's completions, by command path, for commands of operators.
var managedCompletions = map[string]managedNames{
	"app set":             appNames,
	"app show":            appNames,
	"app delete":          appNames,
	"app allow-anonymous": appNames,
	"key delete":          keyNames,
}

func appNames(ctx context.Context, _ *cobra.Command, c *control) (list []string) {
	var all struct{ Items []appJSON }
	if c.Call(ctx, godwit.Call{Method: http.MethodGet, Path: "/v1/apps"}, &all) != nil {
		return nil
	}
	for i := range all.Items {
		list = append(list, clean(all.Items[i].Name))
	}
	return list
}

// keyNames returns the ids of the keys of the app in --app, each with the key's purpose.
func keyNames(ctx context.Context, _ *cobra.Command, c *control) (list []string) {
	var all struct{ Items []keyJSON }
	if c.Call(ctx, godwit.Call{Method: http.MethodGet, Path: "/v1/keys", Query: c.query}, &all) != nil {
		return nil
	}
	for i := range all.Items {
		list = append(list, cobra.CompletionWithDesc(all.Items[i].ID, clean(all.Items[i].Name)))
	}
	return list
}

// completeManaged lets shells complete names that operators manage: for the first argument, and for --app.
func (p *program) completeManaged(cmd *cobra.Command, path string) {
	if names, ok := managedCompletions[path]; ok {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.namesOf(cmd, names), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if hasLocal(cmd, "app") && hasLocal(cmd, "local") {
		_ = cmd.RegisterFlagCompletionFunc("app", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) { // fails only if the flag already has a completion
			return p.namesOf(cmd, appNames), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

func hasLocal(cmd *cobra.Command, flag string) (has bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { has = has || f.Name == flag })
	return has
}

// namesOf asks the server that the command itself would ask. If it cannot, it returns none.
func (p *program) namesOf(cmd *cobra.Command, names managedNames) (list []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	cmd.SetContext(ctx)
	app, _ := cmd.Flags().GetString("app") // without the flag, a command uses the only app
	_ = p.withControl(cmd, app, func(c *control) error {
		list = names(ctx, cmd, c)
		return nil
	})
	slices.Sort(list)
	return list
}
