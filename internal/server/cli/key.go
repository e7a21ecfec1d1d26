package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
)

func (p *program) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Manage API keys of back ends",
		Long:  "Manage the API keys in a data folder. A server that runs on it notices within a second.",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.keyCreateCommand(), p.keyListCommand(), p.keyDeleteCommand())
	return cmd
}

func (p *program) keyCreateCommand() *cobra.Command {
	var app, name string
	var roles []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an API key, which is shown once",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			role, err := access.ParseRoles(roles)
			if err != nil {
				return usagef("%w", err)
			}
			return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
				a, err := r.App(app)
				if err != nil {
					return err
				}
				key, secret, err := r.CreateKey(ctx, a.Name, name, role)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]any{"app": a.Name, "id": key.ID, "key": secret, "roles": role.Names()})
				}
				_, err = fmt.Fprintf(p.stdout, "API key %s of app %s (%s), shown this once:\n\n  %s\n", key.ID, a.Name, role, p.paint(bold, secret))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the key (default: the only one)")
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringSliceVar(&roles, "role", []string{"publish"}, "what it may do: publish, read, worker, admin")
	dataFlags(cmd)
	return cmd
}

func (p *program) keyListCommand() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List an app's API keys, without their secrets",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withAccess(cmd, false, func(_ context.Context, r *access.Registry) error {
				a, err := r.App(app)
				if err != nil {
					return err
				}
				rows := [][]string{}
				for _, k := range r.Keys(a.Name) {
					if p.json {
						if err := p.line(keyJSON(k)); err != nil {
							return err
						}
						continue
					}
					used := "never"
					if !k.LastUsed.IsZero() {
						used = k.LastUsed.Local().Format(time.DateTime)
					}
					rows = append(rows, []string{k.ID, clean(k.Name), k.Roles.String(), k.CreatedAt.Local().Format(time.DateTime), used})
				}
				if p.json {
					return nil
				}
				return p.table([]string{"ID", "NAME", "ROLES", "CREATED", "LAST USED"}, rows)
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the keys (default: the only one)")
	dataFlags(cmd)
	return cmd
}

func keyJSON(k access.Key) map[string]any {
	v := map[string]any{
		"id": k.ID, "app": k.App, "name": k.Name, "roles": k.Roles.Names(), "created_at": k.CreatedAt, "prefix": k.Prefix,
	}
	if !k.LastUsed.IsZero() {
		v["last_used"] = k.LastUsed
	}
	return v
}

func (p *program) keyDeleteCommand() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Revoke an API key",
		Args:  exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
				a, err := r.App(app)
				if err != nil {
					return err
				}
				if err := r.DeleteKey(ctx, a.Name, args[0]); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err = fmt.Fprintf(p.stdout, "API key %s is revoked.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the key (default: the only one)")
	dataFlags(cmd)
	return cmd
}

func (p *program) tokenCommand() *cobra.Command {
	var app, ttl string
	var req access.TokenRequest
	cmd := &cobra.Command{
		Use:   "token --recipient NAME",
		Short: "Make a client token with the app's own key",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Recipient == "" {
				return usagef("--recipient is missing: whom is the token for?")
			}
			var err error
			if req.TTL, err = notification.ParseDuration(ttl); err != nil {
				return usagef("--ttl: %w", err)
			}
			return p.withAccess(cmd, false, func(_ context.Context, r *access.Registry) error {
				text, expires, err := r.MintToken(app, req)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]any{"token": text, "expires_at": expires, "recipient": req.Recipient})
				}
				_, err = fmt.Fprintln(p.stdout, text)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&app, "app", "", "app of the recipient (default: the only one)")
	f.StringVar(&req.Recipient, "recipient", "", "whom the token is for")
	f.StringVar(&ttl, "ttl", "24h", "how long it lives")
	f.StringVar(&req.Group, "group", "", "group of the recipient")
	f.StringVar(&req.Device, "device", "", "device the token is bound to")
	f.StringSliceVar(&req.Topics, "topics", nil, "topics it may subscribe to, as patterns")
	f.StringSliceVar(&req.Objects, "objects", nil, "objects it may register for, as patterns (default: all)")
	f.StringSliceVar(&req.Serve, "serve", nil, "subjects it may serve, as patterns")
	f.StringSliceVar(&req.Publish, "publish", nil, "topics it may publish to over MQTT, as patterns; to.NAME is a mailbox, o.GROUP.NAME an object, r.NAME a request")
	dataFlags(cmd)
	return cmd
}
