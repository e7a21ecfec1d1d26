package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
)

func (p *program) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Manage API keys of back ends",
		Long: `Manage the API keys of an app, with the server's operator key or an API key of role admin. Changes take effect at once, on
other nodes within a second. With --local the commands write to a data folder that no server uses.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.keyCreateCommand(), p.keyListCommand(), p.keyDeleteCommand())
	return cmd
}

// keyJSON holds the fields of a key in the API.
type keyJSON struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Prefix    string    `json:"prefix"`
	Roles     []string  `json:"roles"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at"`
	Key       string    `json:"key"`
	App       string    `json:"app"`
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
			return p.withControl(cmd, app, func(c *control) error {
				var k keyJSON
				if err := c.call(cmd, http.MethodPost, "/v1/keys", map[string]any{"name": name, "roles": role.Names()}, &k); err != nil {
					return fmt.Errorf("create key: %w", err)
				}
				if p.json {
					return p.line(map[string]any{"app": k.App, "id": k.ID, "key": k.Key, "roles": k.Roles})
				}
				_, err = fmt.Fprintf(p.stdout, "API key %s of app %s (%s), shown this once:\n\n  %s\n", k.ID, k.App, strings.Join(k.Roles, ","), p.paint(bold, k.Key))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the key (default: the only one)")
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringSliceVar(&roles, "role", []string{"publish"}, "what it may do: publish, read, worker, admin")
	p.localFlags(cmd)
	return cmd
}

func (p *program) keyListCommand() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List an app's API keys, without their secrets",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withControl(cmd, app, func(c *control) error {
				var all struct{ Items []keyJSON }
				if err := c.call(cmd, http.MethodGet, "/v1/keys", nil, &all); err != nil {
					return fmt.Errorf("list keys: %w", err)
				}
				rows := [][]string{}
				for i := range all.Items {
					k := &all.Items[i]
					if p.json {
						if err := p.line(k.shown()); err != nil {
							return err
						}
						continue
					}
					used := "never"
					if !k.LastUsed.IsZero() {
						used = k.LastUsed.Local().Format(time.DateTime)
					}
					rows = append(rows, []string{k.ID, clean(k.Name), strings.Join(k.Roles, ","), k.CreatedAt.Local().Format(time.DateTime), used})
				}
				if p.json {
					return nil
				}
				return p.table([]string{"ID", "NAME", "ROLES", "CREATED", "LAST USED"}, rows)
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the keys (default: the only one)")
	p.localFlags(cmd)
	return cmd
}

// shown returns a key for --json.
func (k *keyJSON) shown() map[string]any {
	v := map[string]any{
		"id": k.ID, "app": k.App, "name": k.Name, "roles": k.Roles, "created_at": k.CreatedAt, "prefix": k.Prefix,
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
			return p.withControl(cmd, app, func(c *control) error {
				if err := c.call(cmd, http.MethodDelete, "/v1/keys/"+url.PathEscape(args[0]), nil, nil); err != nil {
					return fmt.Errorf("delete key %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "API key %s is revoked.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app of the key (default: the only one)")
	p.localFlags(cmd)
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
			if _, err := notification.ParseDuration(ttl); err != nil {
				return usagef("--ttl: %w", err)
			}
			body := map[string]any{"recipient": req.Recipient, "ttl": ttl}
			for member, text := range map[string]string{"group": req.Group, "device": req.Device} {
				if text != "" {
					body[member] = text
				}
			}
			for member, list := range map[string][]string{"topics": req.Topics, "objects": req.Objects, "serve": req.Serve, "publish": req.Publish} {
				if cmd.Flags().Changed(member) {
					body[member] = list
				}
			}
			return p.withControl(cmd, app, func(c *control) error {
				var made struct {
					Token     string    `json:"token"`
					ExpiresAt time.Time `json:"expires_at"`
				}
				if err := c.call(cmd, http.MethodPost, "/v1/tokens", body, &made); err != nil {
					return fmt.Errorf("make token for %s: %w", req.Recipient, err)
				}
				if p.json {
					return p.line(map[string]any{"token": made.Token, "expires_at": made.ExpiresAt, "recipient": req.Recipient})
				}
				_, err := fmt.Fprintln(p.stdout, made.Token)
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
	p.localFlags(cmd)
	return cmd
}
