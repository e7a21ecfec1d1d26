package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// settings makes the commands for one kind of an app's settings in a data folder. S is the service that changes them, and I its description
// of one.
type settings[S, I any] struct {
	what    string // in words: sink
	with    func(cmd *cobra.Command, appName string, do func(ctx context.Context, s S, app string) error) error
	all     func(ctx context.Context, s S, app string) ([]I, error)
	info    func(*I) map[string]any // with --json
	columns []string
	row     func(*I) []string
}

func (o settings[S, I]) flags(cmd *cobra.Command, appName *string) {
	cmd.Flags().StringVar(appName, "app", "", "app of the "+o.what+" (default: the only one)")
	dataFlags(cmd)
}

func (o settings[S, I]) listCommand(p *program, short string) *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, appName, func(ctx context.Context, s S, app string) error {
				infos, err := o.all(ctx, s, app)
				if err != nil {
					return err
				}
				rows := [][]string{}
				for i := range infos {
					if p.json {
						if err := p.line(o.info(&infos[i])); err != nil {
							return err
						}
						continue
					}
					rows = append(rows, o.row(&infos[i]))
				}
				if p.json {
					return nil
				}
				return p.table(o.columns, rows)
			})
		},
	}
	o.flags(cmd, &appName)
	return cmd
}

// removeCommand makes the command that removes settings; arg is what names them.
func (o settings[S, I]) removeCommand(p *program, arg, long string, remove func(ctx context.Context, s S, app, kind string) error) *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "remove " + strings.ToUpper(arg),
		Short: "End a " + o.what + " and forget its settings",
		Long:  "End a " + o.what + " and forget its settings, the password included. " + long,
		Args:  exactly(arg),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, appName, func(ctx context.Context, s S, app string) error {
				if err := remove(ctx, s, app, args[0]); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"removed": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "%s %s is removed.\n", title(o.what), args[0])
				return err
			})
		},
	}
	o.flags(cmd, &appName)
	return cmd
}

// added prints that settings of a kind were added or changed, and their destination.
func (o settings[S, I]) added(p *program, info *I, kind string, created, enabled bool, where string) error {
	if p.json {
		return p.line(o.info(info))
	}
	did := "changed"
	if created {
		did = "added"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s is %s: %s, %s.\n", title(o.what), kind, did, enabledText(enabled), clean(where))
	return err
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func enabledText(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}
