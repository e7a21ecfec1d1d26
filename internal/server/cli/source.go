package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (p *program) sourceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "Take an app's notifications from where its publishers put them",
		Long: `Take an app's notifications from where its publishers already put them. "godwit source add --help" lists the kinds of
sources. add, list, preview and remove use the settings in the data folder, whose changes a running server notices within a second; the other
commands ask the server.`,
		Args: subcommandOnly,
		RunE: help,
	}
	sources := p.sources()
	cmd.AddCommand(
		p.sourceAddCommand(), sources.listCommand(p, "List the sources and their settings, without credentials"),
		sources.removeCommand(p, "name", "What was not taken yet stays at the source.", p.removeSource),
		p.sourcePreviewCommand(), p.sourceStatusCommand(), p.sourceQuarantineCommand(), p.sourceSchemaCommand(),
		p.sourceActCommand("pause", "Stop to read a source, and keep its place", "paused"),
		p.sourceActCommand("resume", "Read a paused source again from where it stopped", "resumed"),
		p.sourceActCommand("resync", "Read a source anew from its beginning, after it lost its place", "told to begin anew"),
	)
	return cmd
}

// withSources runs do with the sources of the data folder and the named app.
func (p *program) withSources(cmd *cobra.Command, appName string, do func(ctx context.Context, s *source.Service, app string) error) error {
	return p.withApp(cmd, appName, func(ctx context.Context, _ *config.Config, apps *store.Apps, name string) error {
		s, err := source.New(ctx, source.Config{Store: apps.Sources, Records: noRecords{}, Kinds: feeds.SourceKinds(p.modules), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return do(ctx, s, name)
	})
}

func (p *program) sources() settings[*source.Service, source.Info] {
	return settings[*source.Service, source.Info]{
		what: "source", with: p.withSources, info: sourceInfo, columns: []string{"SOURCE", "KIND", "STATE", "SETTINGS"},
		all: func(_ context.Context, s *source.Service, app string) ([]source.Info, error) { return s.List(app), nil },
		row: func(i *source.Info) []string {
			return []string{i.Name, i.Kind, enabledText(i.Enabled), valuesText(i.Values, i.View)}
		},
	}
}

func (p *program) sourceAddCommand() *cobra.Command {
	var appName string
	var disable bool
	change := source.Change{Private: true}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Begin to read a source, or change it",
		Long: `Begin to read a source, or change what is read. A name that is that of a kind needs no --kind:
` + p.sourceKinds() + `
A change names all settings: those that are not named go back to their defaults. A password alone stays as it is where none is
named, and an empty file takes it away. It is read from a file, never from an argument, which other users can see.`,
		Example: `  godwit source add redisstream --redis-url redis://redis.internal:6379 --password-file redis-password
  godwit source add postgres --postgres-url postgres://godwit@db.internal/shop --password-file password --tables tables.json
  godwit source add jetstream --nats-url tls://nats.internal:4222 --stream ORDERS --credentials-file godwit.creds`,
		Args: exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			enabled := !disable
			change.Enabled = &enabled
			return p.withSources(cmd, appName, func(ctx context.Context, s *source.Service, name string) error {
				if err := readChange(cmd, s, name, args[0], &change); err != nil {
					return err
				}
				info, created, err := s.Set(ctx, name, args[0], change)
				if err != nil {
					return err
				}
				return p.sources().added(p, &info, info.Name, created, info.Enabled, strings.Join(info.Addresses, " "))
			})
		},
	}
	p.sourceFlags(cmd, &change)
	cmd.Flags().BoolVar(&disable, "disable", false, "keep the settings, but do not read")
	p.sources().flags(cmd, &appName)
	return cmd
}

// sourceFlags adds the flags of the settings of a source.
func (p *program) sourceFlags(cmd *cobra.Command, change *source.Change) {
	for _, kind := range feeds.SourceKinds(p.modules) {
		fieldFlags(cmd.Flags(), kind.Fields())
	}
	cmd.Flags().StringVar(&change.Kind, "kind", "", "kind of a new source (default: its name)")
}

// readChange reads the values of a change from flags.
func readChange(cmd *cobra.Command, s *source.Service, app, name string, change *source.Change) error {
	fields, err := s.Fields(s.KindOf(app, name, change.Kind))
	if err != nil {
		return err
	}
	change.Values, err = fieldValues(cmd.Flags(), fields)
	return err
}

func (p *program) sourceSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the table that a kind of source reads, as SQL",
		Args:  exactly("kind"),
		RunE: func(_ *cobra.Command, args []string) error {
			kind, err := setting.KindOf(feeds.SourceKinds(p.modules), args[0], source.ErrUnknown)
			if err != nil {
				return err
			}
			s, ok := kind.(source.Schemer)
			if !ok {
				return fmt.Errorf("a source of the kind %s needs no table of its own", args[0])
			}
			if p.json {
				return p.line(map[string]string{"kind": args[0], "schema": s.Schema()})
			}
			_, err = fmt.Fprint(p.stdout, s.Schema())
			return err
		},
	}
}

// sourceInfo returns the stored settings of a source. Only the server that reads it knows its state: GET /v1/sources.
func sourceInfo(i *source.Info) map[string]any {
	v := map[string]any{"source": i.Name, "kind": i.Kind, "enabled": i.Enabled, "updated_at": i.UpdatedAt}
	return withFields(v, i.Values, i.View)
}

// noRecords are the records of sources whose settings are changed without the server that keeps them.
type noRecords struct{ source.Records }

// Position implements source.Records. Only the server knows.
func (noRecords) Position(context.Context, setting.Place) ([]byte, error) { return nil, errServerKnows }

var errServerKnows = errors.New("only the server that read it knows what it has made there; look with godwit doctor, into pg_replication_slots, or at the consumers of the stream")

// Forget implements source.Records. The server forgets a source once it is made anew.
func (noRecords) Forget(context.Context, setting.Place, bool) error { return nil }

// sourceKinds lists the kinds of sources, one a line.
func (p *program) sourceKinds() string {
	var lines []string
	kinds := feeds.SourceKinds(p.modules)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		lines = append(lines, fmt.Sprintf("  %-17s %s", name, kinds[name].About()))
	}
	return strings.Join(lines, "\n")
}

func (p *program) removeSource(ctx context.Context, s *source.Service, app, name string) error {
	left, err := s.Delete(ctx, app, name)
	if err == nil && left != "" {
		err = fmt.Errorf("source %s is removed, but not what it had at its server: %s", name, left)
	}
	return err
}

// sourceJSON is the state of a source as the server reports it.
type sourceJSON struct {
	Source      string   `json:"source"`
	Kind        string   `json:"kind"`
	State       string   `json:"state"`
	LagBytes    *int64   `json:"lag_bytes"`
	LagEntries  *int64   `json:"lag_entries"`
	LagSeconds  *float64 `json:"lag_seconds"`
	Quarantined uint64   `json:"quarantined"`
	Detail      string   `json:"detail"`
	Counts      struct {
		Stored uint64 `json:"stored"`
	} `json:"counts"`
}

// behind says in words how far a source is behind.
func (s *sourceJSON) behind() string {
	if s.LagSeconds == nil {
		return ""
	}
	behind := time.Duration(*s.LagSeconds * float64(time.Second)).Round(time.Second).String()
	switch {
	case *s.LagBytes > 0:
		behind += ", " + size(*s.LagBytes)
	case *s.LagEntries > 0:
		behind += fmt.Sprintf(", %d entries", *s.LagEntries)
	}
	return behind
}

func (p *program) sourceStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the sources fare: state, entries taken, how far behind",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/sources", nil, unpaged, []string{"SOURCE", "KIND", "STATE", "TAKEN", "QUARANTINED", "BEHIND", "DETAIL"}, func(s *sourceJSON) []string {
					return []string{s.Source, s.Kind, s.State, strconv.FormatUint(s.Counts.Stored, 10), strconv.FormatUint(s.Quarantined, 10), s.behind(), clean(s.Detail)}
				})
			})
		},
	}
}

func (p *program) sourceActCommand(verb, short, did string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var now sourceJSON
				err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPost, Path: "/v1/sources/" + url.PathEscape(args[0]) + "/" + verb}, &now)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(&now)
				}
				_, err = fmt.Fprintf(p.stdout, "Source %s is %s.\n", args[0], did)
				return err
			})
		},
	}
}

// setAsideJSON is an entry in quarantine.
type setAsideJSON struct {
	Number     string    `json:"number"`
	At         time.Time `json:"at"`
	From       string    `json:"from"`
	Why        string    `json:"why"`
	Text       string    `json:"text,omitempty"`
	TextBase64 string    `json:"text_base64,omitempty"`
}

func (p *program) sourceQuarantineCommand() *cobra.Command {
	empty := false
	cmd := &cobra.Command{
		Use:   "quarantine NAME",
		Short: "List entries of a source that were no notification, and why",
		Long: `List entries of a source that were no notification, and why, the newest first; with --json their text too. The newest ` +
			strconv.Itoa(source.MaxSetAside) + ` of a source are kept.`,
		Args: exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/v1/sources/" + url.PathEscape(args[0]) + "/quarantine"
			return p.withClient(func(c *godwit.Client) error {
				if empty {
					return c.Call(cmd.Context(), godwit.Call{Method: http.MethodDelete, Path: path}, nil)
				}
				return list(cmd.Context(), p, c, path, nil, unpaged, []string{"NUMBER", "AT", "FROM", "WHY"}, func(e *setAsideJSON) []string {
					return []string{e.Number, moment(e.At), clean(e.From), clean(e.Why)}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&empty, "empty", false, "delete the entries")
	return cmd
}
