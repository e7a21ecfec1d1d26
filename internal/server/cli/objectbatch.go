package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

func (p *program) objectBatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch",
		Short: "Let the signals of a group's objects leave together, at fixed intervals",
		Long: `Let the signals of a group's objects leave together, at fixed intervals: a link is quiet in between. The group '*' is
every group without an interval of its own. It needs a key of role admin.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.objectBatchSetCommand(), p.objectBatchListCommand(), p.objectBatchDeleteCommand())
	return cmd
}

// batch is a group's interval in the API.
type batch struct {
	Group string `json:"group,omitempty"`
	Batch string `json:"batch"`
}

// callBatches calls a path below /v1/batches.
func (p *program) callBatches(ctx context.Context, method, group string, in, out any) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	path := "/v1/batches"
	if group != "" {
		path += "/" + url.PathEscape(group)
	}
	return c.Call(ctx, godwit.Call{Method: method, Path: path, Body: in}, out)
}

func (p *program) objectBatchSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set GROUP INTERVAL",
		Short: "Set a group's interval, from 100ms to 1h; 0s: none, whatever '*' says",
		Args:  exactly("group", "interval"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var now batch
			if err := p.callBatches(cmd.Context(), http.MethodPut, args[0], batch{Batch: args[1]}, &now); err != nil {
				return err
			}
			if p.json {
				return p.line(now)
			}
			_, err := fmt.Fprintf(p.stdout, "Group %s has a batching interval of %s.\n", now.Group, now.Batch)
			return err
		},
	}
}

func (p *program) objectBatchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the groups' intervals",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all struct{ Items []batch }
			if err := p.callBatches(cmd.Context(), http.MethodGet, "", nil, &all); err != nil {
				return err
			}
			rows := [][]string{}
			for _, b := range all.Items {
				if p.json {
					if err := p.line(b); err != nil {
						return err
					}
					continue
				}
				rows = append(rows, []string{b.Group, b.Batch})
			}
			if p.json {
				return nil
			}
			return p.table([]string{"GROUP", "BATCH"}, rows)
		},
	}
}

func (p *program) objectBatchDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete GROUP",
		Short: "Delete a group's interval",
		Args:  exactly("group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.callBatches(cmd.Context(), http.MethodDelete, args[0], nil, nil); err != nil {
				return err
			}
			if p.json {
				return p.line(map[string]string{"deleted": args[0]})
			}
			_, err := fmt.Fprintf(p.stdout, "Group %s has no batching interval of its own any more.\n", args[0])
			return err
		},
	}
}
