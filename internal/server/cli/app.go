package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

func (p *program) appCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "app",
		Short: "Manage apps: namespaces with their own keys and recipients",
		Long:  "Manage the apps in a data folder. A server that runs on it notices within a second.",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.appCreateCommand(), p.appSetCommand(), p.appListCommand(), p.appDeleteCommand(), p.appAnonymousCommand())
	return cmd
}

// appSettings holds the flags that change an app.
type appSettings struct {
	jwtKeys, origins, certTopics, certServe          []string
	jwks, introspect, introID, introSecret, iss, aud string
}

func (s *appSettings) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.jwtKeys, "jwt-key", nil, "file with keys that verify client tokens: PEM, JWK, JWK set or an HS256 secret (repeatable)")
	f.StringVar(&s.jwks, "jwks-url", "", "URL of the JWK set that verifies client tokens")
	f.StringVar(&s.introspect, "introspect-url", "", "URL that checks opaque client tokens (RFC 7662)")
	f.StringVar(&s.introID, "introspect-id", "", "user name for the introspection URL")
	f.StringVar(&s.introSecret, "introspect-secret-file", "", "file with the password for the introspection URL")
	f.StringArrayVar(&s.origins, "origin", nil, "web page origin that may connect, like https://example.org (repeatable)")
	f.StringArrayVar(&s.certTopics, "certificate-topic", nil, "topics that a client certificate may subscribe to, like units.{sub}.> (repeatable)")
	f.StringArrayVar(&s.certServe, "certificate-serve", nil, "subjects that a client certificate may serve, like ask.{sub} (repeatable)")
	f.StringVar(&s.iss, "issuer", "", "issuer (iss) demanded of client tokens")
	f.StringVar(&s.aud, "audience", "", "audience (aud) demanded of client tokens")
}

// change returns the changes that the given flags request.
func (s *appSettings) change(cmd *cobra.Command) (c access.AppChange, err error) {
	given := cmd.Flags().Changed
	for _, f := range []struct {
		flag  string
		value *string
		into  **string
	}{
		{"jwks-url", &s.jwks, &c.JWKSURL},
		{"introspect-url", &s.introspect, &c.IntrospectURL},
		{"introspect-id", &s.introID, &c.IntrospectID},
		{"issuer", &s.iss, &c.Issuer},
		{"audience", &s.aud, &c.Audience},
	} {
		if given(f.flag) {
			*f.into = f.value
		}
	}
	for _, f := range []struct {
		flag  string
		value *[]string
		into  **[]string
	}{
		{"origin", &s.origins, &c.Origins},
		{"certificate-topic", &s.certTopics, &c.CertificateTopics},
		{"certificate-serve", &s.certServe, &c.CertificateServe},
	} {
		if given(f.flag) {
			*f.value = slices.DeleteFunc(*f.value, func(s string) bool { return s == "" })
			*f.into = f.value
		}
	}
	if given("introspect-secret-file") {
		b, err := os.ReadFile(s.introSecret)
		if err != nil {
			return c, fmt.Errorf("read introspection password: %w", err)
		}
		secret := access.Secret(textfile.Plain(b))
		c.IntrospectSecret = &secret
	}
	if given("jwt-key") {
		keys := []access.JWTKey{}
		for _, file := range s.jwtKeys {
			b, err := os.ReadFile(file)
			if err != nil {
				return c, fmt.Errorf("read token key: %w", err)
			}
			more, err := access.ParseJWTKeys(b)
			if err != nil {
				return c, fmt.Errorf("read token key %s: %w", file, err)
			}
			keys = append(keys, more...)
		}
		c.JWTKeys = &keys
	}
	return c, nil
}

func (p *program) appCreateCommand() *cobra.Command {
	var s appSettings
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an app and its first API key, which is shown once",
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := s.change(cmd)
			if err != nil {
				return err
			}
			return p.withAccess(cmd, true, func(ctx context.Context, r *access.Registry) error {
				if err := r.CreateApp(ctx, args[0], change); err != nil {
					return err
				}
				_, secret, err := r.CreateKey(ctx, args[0], "first", access.Admin)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"app": args[0], "key": secret})
				}
				_, err = fmt.Fprintf(p.stdout, "App %s is ready. Its API key, shown this once:\n\n  %s\n", args[0], p.paint(bold, secret))
				return err
			})
		},
	}
	s.flags(cmd)
	dataFlags(cmd)
	return cmd
}

func (p *program) appSetCommand() *cobra.Command {
	var s appSettings
	var newMintKey bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change how an app's clients prove who they are",
		Long:  "Change how an app's clients prove who they are. Only what is named changes; an empty value takes it away.",
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := s.change(cmd)
			if err != nil {
				return err
			}
			change.NewMintKey = newMintKey
			return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
				if err := r.SetApp(ctx, args[0], change); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"app": args[0]})
				}
				_, err = fmt.Fprintf(p.stdout, "App %s is changed.\n", args[0])
				return err
			})
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&newMintKey, "new-token-key", false, "replace the key that godwit token uses; tokens it made end")
	dataFlags(cmd)
	return cmd
}

func (p *program) appListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withAccess(cmd, false, func(_ context.Context, r *access.Registry) error {
				rows := [][]string{}
				for _, a := range r.Apps() {
					keys := len(r.Keys(a.Name))
					if p.json {
						if err := p.line(map[string]any{
							"app": a.Name, "created_at": a.CreatedAt, "keys": keys, "jwt_keys": len(a.JWTKeys), "origins": a.Origins,
							"jwks_url": a.JWKSURL, "introspect_url": a.IntrospectURL, "certificate_topics": a.CertificateTopics, "certificate_serve": a.CertificateServe,
						}); err != nil {
							return err
						}
						continue
					}
					rows = append(rows, []string{
						a.Name, a.CreatedAt.Local().Format(time.DateTime), fmt.Sprint(keys), fmt.Sprint(len(a.JWTKeys)),
						a.JWKSURL, a.IntrospectURL, strings.Join(a.Origins, " "),
					})
				}
				if p.json {
					return nil
				}
				return p.table([]string{"APP", "CREATED", "API KEYS", "TOKEN KEYS", "JWKS", "INTROSPECTION", "ORIGINS"}, rows)
			})
		},
	}
	dataFlags(cmd)
	return cmd
}

func (p *program) appDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an app, its keys and all that its recipients had",
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return withHint(usagef("deleting app %s ends all its keys and tokens", args[0]), "add --yes if that is meant")
			}
			return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
				if err := r.DeleteApp(ctx, args[0]); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "App %s is deleted.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really delete")
	dataFlags(cmd)
	return cmd
}

func (p *program) appAnonymousCommand() *cobra.Command {
	var origins []string
	var off bool
	cmd := &cobra.Command{
		Use:   "allow-anonymous [NAME] --origin ORIGIN",
		Short: "Let visitors of web pages register for push messages without a token",
		Long: `Let visitors of web pages register for push messages without a token. --origin names the site that serves the pages;
the list replaces the former one. --off ends it; who is registered stays so.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("name")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if off == (len(origins) > 0) {
				return withHint(usagef("name the sites, or turn it off"), "give --origin https://example.org, more than once for more sites, or --off")
			}
			name := strings.Join(args, "")
			return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
				app, err := r.App(name)
				if err != nil {
					return err
				}
				if err := r.SetApp(ctx, app.Name, access.AppChange{AnonymousOrigins: &origins}); err != nil {
					return err
				}
				if app, err = r.App(app.Name); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]any{"app": app.Name, "anonymous_origins": append([]string{}, app.AnonymousOrigins...)})
				}
				if off {
					_, err = fmt.Fprintf(p.stdout, "App %s takes no anonymous registrations.\n", app.Name)
				} else {
					_, err = fmt.Fprintf(p.stdout, "App %s takes anonymous registrations from %s.\n", app.Name, strings.Join(app.AnonymousOrigins, " "))
				}
				return err
			})
		},
	}
	cmd.Flags().StringArrayVar(&origins, "origin", nil, "origin of the pages, like https://example.org (repeatable)")
	cmd.Flags().BoolVar(&off, "off", false, "take none any more")
	dataFlags(cmd)
	return cmd
}
