package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
)

func (p *program) sourceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "Take an app's notifications from where its publishers put them",
		Long: `Take an app's notifications from where its publishers already put them. "godwit source add --help" lists the kinds of
sources. The commands need the server's operator key or an API key of role admin.`,
		Args: subcommandOnly,
		RunE: help,
	}
	sources := p.sources()
	cmd.AddCommand(
		p.sourceAddCommand(), sources.listCommand(p, "List the sources and their settings, without credentials"),
		sources.removeCommand(p, "name", "What was not taken yet stays at the source."),
		p.sourcePreviewCommand(), p.sourceStatusCommand(), p.sourceQuarantineCommand(), p.sourceSchemaCommand(),
		p.sourceActCommand("pause", "Stop to read a source, and keep its place", "paused"),
		p.sourceActCommand("resume", "Read a paused source again from where it stopped", "resumed"),
		p.sourceActCommand("resync", "Read a source anew from its beginning, after it lost its place; a paused one is resumed", "told to begin anew"),
	)
	return cmd
}

func (p *program) sources() settings[ofKind] {
	kinds := feeds.SourceKinds(p.modules)
	return settings[ofKind]{
		what: "source", path: "/v1/sources", columns: []string{"SOURCE", "KIND", "STATE", "SETTINGS"},
		row: func(o *ofKind) []string {
			return []string{o.text("source"), o.text("kind"), o.state(), o.summary(fieldsOf(kinds[o.text("kind")]))}
		},
	}
}

func (p *program) sourceAddCommand() *cobra.Command {
	var appName, kindName string
	var disable bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Begin to read a source, or change it",
		Long: `Begin to read a source, or change what is read. A name that is that of a kind needs no --kind:
` + p.sourceKinds() + `
A change names all settings: those that are not named go back to their defaults. A password alone stays as it is where none is
named, and an empty file takes it away. It is read from a file, never from an argument, which other users can see.`,
		Args: exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withControl(cmd, appName, func(c *control) error {
				fields, body, err := p.sourceBody(cmd, c, args[0], kindName)
				if err != nil {
					return err
				}
				body["enabled"] = setting.JSON(!disable)
				var now ofKind
				if err := c.call(cmd, http.MethodPut, p.sources().at(args[0]), body, &now); err != nil {
					return fmt.Errorf("set source %s: %w", args[0], err)
				}
				return p.printAdded("source", args[0], now, fields)
			})
		},
	}
	p.sourceFlags(cmd, &kindName)
	cmd.Flags().BoolVar(&disable, "disable", false, "keep the settings, but do not read")
	p.sources().changeFlags(p, cmd, &appName)
	return cmd
}

// sourceBody returns the fields of a source's kind, and the values that the flags give: the kind that --kind names, or that of the source,
// or the source's own name.
func (p *program) sourceBody(cmd *cobra.Command, c *control, name, kindName string) (fields []setting.Field, body map[string]json.RawMessage, err error) {
	of := kindName
	if of == "" {
		var was ofKind
		var answer *godwit.Error
		switch err := c.call(cmd, http.MethodGet, p.sources().at(name), nil, &was); {
		case err == nil:
			of = was.text("kind")
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
			of = name
		default:
			return nil, nil, fmt.Errorf("read source %s: %w", name, err)
		}
	}
	kind, err := setting.KindOf(feeds.SourceKinds(p.modules), of, source.ErrUnknown)
	if err != nil {
		return nil, nil, err
	}
	values, err := fieldValues(cmd.Flags(), kind.Fields())
	if err != nil {
		return nil, nil, err
	}
	body = values
	if kindName != "" {
		body["kind"] = setting.JSON(kindName)
	}
	return kind.Fields(), body, nil
}

// sourceFlags adds the flags of the settings of a source.
func (p *program) sourceFlags(cmd *cobra.Command, kindName *string) {
	for _, kind := range feeds.SourceKinds(p.modules) {
		fieldFlags(cmd.Flags(), kind.Fields())
	}
	cmd.Flags().StringVar(kindName, "kind", "", "kind of a new source (default: its name)")
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
