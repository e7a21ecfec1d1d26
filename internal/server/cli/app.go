package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

func (p *program) appCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "app",
		Short: "Manage apps: namespaces with their own keys and recipients",
		Long: `Manage the apps of a server, with its operator key. Changes take effect at once, on other nodes within a second. With --local
the commands write to a data folder that no server uses.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.appCreateCommand(), p.appSetCommand(), p.appShowCommand(), p.appListCommand(), p.appDeleteCommand(), p.appAnonymousCommand())
	return cmd
}

// appJSON holds the fields of an app in the API that commands show.
type appJSON struct {
	Name             string                `json:"name"`
	CreatedAt        time.Time             `json:"created_at"`
	Revision         string                `json:"revision"`
	Keys             int                   `json:"keys"`
	JWTKeys          []access.JWTKey       `json:"jwt_keys"`
	JWKSURL          string                `json:"jwks_url"`
	IntrospectURL    string                `json:"introspect_url"`
	IntrospectID     string                `json:"introspect_id"`
	Issuer           string                `json:"issuer"`
	Audience         string                `json:"audience"`
	Origins          []string              `json:"origins"`
	AnonymousOrigins []string              `json:"anonymous_origins"`
	CertTopics       []string              `json:"certificate_topics"`
	CertServe        []string              `json:"certificate_serve"`
	CertPublish      []string              `json:"certificate_publish"`
	Key              *struct{ Key string } `json:"key"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *appJSON) UnmarshalJSON(b []byte) error {
	type plain appJSON
	a.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(a))
}

func appPath(name string) string { return "/v1/apps/" + url.PathEscape(name) }

// appSettings holds the flags that change an app.
type appSettings struct {
	jwtKeys, origins, certTopics, certServe, certPublish, mqttKeep []string
	jwks, introspect, introID, introSecret, iss, aud               string
}

func (s *appSettings) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.jwtKeys, "jwt-key", nil, "file with keys that verify client tokens: PEM, JWK, JWK set or an HS256 secret (repeatable)")
	f.StringVar(&s.jwks, "jwks-url", "", "URL of the JWK set that verifies client tokens")
	f.StringVar(&s.introspect, "introspect-url", "", "URL that checks opaque client tokens (RFC 7662)")
	f.StringVar(&s.introID, "introspect-id", "", "user name for the introspection URL")
	f.StringVar(&s.introSecret, "introspect-secret-file", "", "file with the password for the introspection URL")
	f.StringArrayVar(&s.origins, "origin", nil, "web page origin that may connect, like https://example.org (repeatable)")
	f.StringArrayVar(&s.mqttKeep, "mqtt-keep", nil, "topics whose messages wait for clients of MQTT that are away, like jobs.> (repeatable)")
	f.StringArrayVar(&s.certTopics, "certificate-topic", nil, "topics that a client certificate may subscribe to, like units.{sub}.> (repeatable)")
	f.StringArrayVar(&s.certServe, "certificate-serve", nil, "subjects that a client certificate may serve, like ask.{sub} (repeatable)")
	f.StringArrayVar(&s.certPublish, "certificate-publish", nil, "what a client certificate may publish over MQTT, like telemetry.{sub}.> or to.dispatch (repeatable)")
	f.StringVar(&s.iss, "issuer", "", "issuer (iss) demanded of client tokens")
	f.StringVar(&s.aud, "audience", "", "audience (aud) demanded of client tokens")
}

// change returns the body of a request with the changes that the given flags name.
func (s *appSettings) change(cmd *cobra.Command) (map[string]any, error) {
	given, body := cmd.Flags().Changed, map[string]any{}
	for _, f := range []struct{ flag, member, value string }{
		{"jwks-url", "jwks_url", s.jwks},
		{"introspect-url", "introspect_url", s.introspect},
		{"introspect-id", "introspect_id", s.introID},
		{"issuer", "issuer", s.iss},
		{"audience", "audience", s.aud},
	} {
		if given(f.flag) {
			body[f.member] = f.value
		}
	}
	for _, f := range []struct {
		flag, member string
		list         []string
	}{
		{"origin", "origins", s.origins},
		{"mqtt-keep", "mqtt_keep", s.mqttKeep},
		{"certificate-topic", "certificate_topics", s.certTopics},
		{"certificate-serve", "certificate_serve", s.certServe},
		{"certificate-publish", "certificate_publish", s.certPublish},
	} {
		if given(f.flag) {
			body[f.member] = slices.DeleteFunc(f.list, func(s string) bool { return s == "" })
		}
	}
	if given("introspect-secret-file") {
		b, err := os.ReadFile(s.introSecret)
		if err != nil {
			return nil, fmt.Errorf("read introspection password: %w", err)
		}
		body["introspect_secret"] = textfile.Plain(b)
	}
	if given("jwt-key") {
		keys, err := tokenKeys(s.jwtKeys)
		if err != nil {
			return nil, err
		}
		body["jwt_keys"] = keys
	}
	return body, nil
}

// tokenKeys reads the keys in files; see tokenKey. Without files the list is empty, not nil: it replaces the present keys.
func tokenKeys(files []string) ([]string, error) {
	keys := []string{}
	for _, file := range files {
		key, err := tokenKey(file)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// tokenKey returns the keys in a file as text; a secret of arbitrary bytes becomes a JWK.
func tokenKey(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token key: %w", err)
	}
	if _, err := access.ParseJWTKeys(b); err != nil {
		return "", fmt.Errorf("read token key %s: %w", file, err)
	}
	if utf8.Valid(b) {
		return string(b), nil
	}
	if text := textfile.Key(b); utf8.ValidString(text) {
		return text, nil
	}
	return fmt.Sprintf(`{"kty":"oct","k":%q}`, base64.RawURLEncoding.EncodeToString(b)), nil
}

func (p *program) appCreateCommand() *cobra.Command {
	var s appSettings
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an app and its first API key, which is shown once",
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := s.change(cmd)
			if err != nil {
				return err
			}
			body["name"] = args[0]
			return p.withServer(cmd, true, func(c *control) error {
				var made appJSON
				if err := c.call(cmd, http.MethodPost, "/v1/apps", body, &made); err != nil {
					return fmt.Errorf("create app %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]string{"app": args[0], "key": made.Key.Key})
				}
				_, err = fmt.Fprintf(p.stdout, "App %s is ready. Its API key, shown this once:\n\n  %s\n", args[0], p.paint(bold, made.Key.Key))
				return err
			})
		},
	}
	s.flags(cmd)
	p.localFlags(cmd)
	return cmd
}

// setApp changes an app as it is now: if another operator changes it meanwhile, that is an error.
func (p *program) setApp(cmd *cobra.Command, c *control, name string, body map[string]any) (now appJSON, err error) {
	if err := c.call(cmd, http.MethodGet, appPath(name), nil, &now); err != nil {
		return now, fmt.Errorf("read app %s: %w", name, err)
	}
	call := godwit.Call{Method: http.MethodPatch, Path: appPath(name), IfMatch: strconv.Quote(now.Revision), Body: body}
	if err := c.Call(cmd.Context(), call, &now); err != nil {
		return now, fmt.Errorf("change app %s: %w", name, err)
	}
	return now, nil
}

func (p *program) appSetCommand() *cobra.Command {
	var s appSettings
	var newMintKey bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change how an app's clients prove who they are",
		Long: `Change how an app's clients prove who they are. Only what is named changes; an empty value takes it away. With --revision, as
godwit app show prints it, nothing changes if another operator has changed the app since.`,
		Args: exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := s.change(cmd)
			if err != nil {
				return err
			}
			if newMintKey {
				body["new_token_key"] = true
			}
			return p.withServer(cmd, false, func(c *control) error {
				if atRevision(cmd) == "" {
					if _, err := p.setApp(cmd, c, args[0], body); err != nil {
						return err
					}
				} else if err := c.call(cmd, http.MethodPatch, appPath(args[0]), body, nil); err != nil {
					return fmt.Errorf("change app %s: %w", args[0], err)
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
	revisionFlag(cmd, "app", "app show")
	p.localFlags(cmd)
	return cmd
}

func (p *program) appShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an app's settings, without secrets",
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withServer(cmd, false, func(c *control) error {
				var a appJSON
				if err := c.call(cmd, http.MethodGet, appPath(args[0]), nil, &a); err != nil {
					return fmt.Errorf("read app %s: %w", args[0], err)
				}
				if p.json {
					return p.line(a.raw)
				}
				var b strings.Builder
				fmt.Fprintf(&b, "%s revision %s\n", p.paint(bold, a.Name), a.Revision)
				for _, row := range [][2]string{
					{"created", moment(a.CreatedAt)},
					{"API keys", fmt.Sprint(a.Keys)},
					{"token keys", fmt.Sprint(len(a.JWTKeys))},
					{"JWKS", a.JWKSURL},
					{"introspection", a.IntrospectURL},
					{"issuer", a.Issuer},
					{"audience", a.Audience},
					{"origins", strings.Join(a.Origins, " ")},
					{"anonymous", strings.Join(a.AnonymousOrigins, " ")},
					{"cert topics", strings.Join(a.CertTopics, " ")},
					{"cert serves", strings.Join(a.CertServe, " ")},
					{"cert publishes", strings.Join(a.CertPublish, " ")},
				} {
					if row[1] != "" {
						fmt.Fprintf(&b, "  %-13s %s\n", row[0], clean(row[1]))
					}
				}
				_, err := fmt.Fprint(p.stdout, b.String())
				return err
			})
		},
	}
	p.localFlags(cmd)
	return cmd
}

func (p *program) appListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withServer(cmd, false, func(c *control) error {
				var all struct{ Items []appJSON }
				if err := c.call(cmd, http.MethodGet, "/v1/apps", nil, &all); err != nil {
					return fmt.Errorf("list apps: %w", err)
				}
				rows := [][]string{}
				for i := range all.Items {
					a := &all.Items[i]
					if p.json {
						if err := p.line(map[string]any{
							"app": a.Name, "created_at": a.CreatedAt, "keys": a.Keys, "jwt_keys": len(a.JWTKeys), "origins": a.Origins,
							"jwks_url": a.JWKSURL, "introspect_url": a.IntrospectURL, "certificate_topics": a.CertTopics, "certificate_serve": a.CertServe,
						}); err != nil {
							return err
						}
						continue
					}
					rows = append(rows, []string{
						a.Name, a.CreatedAt.Local().Format(time.DateTime), fmt.Sprint(a.Keys), fmt.Sprint(len(a.JWTKeys)),
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
	p.localFlags(cmd)
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
			return p.withServer(cmd, false, func(c *control) error {
				if err := c.call(cmd, http.MethodDelete, appPath(args[0]), nil, nil); err != nil {
					return fmt.Errorf("delete app %s: %w", args[0], err)
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
	revisionFlag(cmd, "app", "app show")
	p.localFlags(cmd)
	return cmd
}

func (p *program) appAnonymousCommand() *cobra.Command {
	origins, off := []string{}, false
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
			return p.withServer(cmd, false, func(c *control) error {
				name, err := p.theApp(cmd, c, strings.Join(args, ""))
				if err != nil {
					return err
				}
				app, err := p.setApp(cmd, c, name, map[string]any{"anonymous_origins": origins})
				if err != nil {
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
	p.localFlags(cmd)
	return cmd
}

// theApp returns the named app, or else the only one.
func (p *program) theApp(cmd *cobra.Command, c *control, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	var all struct{ Items []appJSON }
	if err := c.call(cmd, http.MethodGet, "/v1/apps", nil, &all); err != nil {
		return "", fmt.Errorf("list apps: %w", err)
	}
	if len(all.Items) != 1 {
		return "", withHint(usagef("name the app: there are %d", len(all.Items)), "godwit app list shows them")
	}
	return all.Items[0].Name, nil
}
