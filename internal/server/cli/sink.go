package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (p *program) sinkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Bring an app's events to ClickHouse",
		Long: `Bring an app's events to ClickHouse, complete and each once. The settings are kept in the data folder; a server that
runs on it notices within a second.`,
		Args: subcommandOnly,
		RunE: help,
	}
	sinks := p.sinks()
	cmd.AddCommand(
		p.sinkAddCommand(), sinks.listCommand(p, "List the sinks and their settings, without credentials"), p.sinkStatusCommand(),
		sinks.removeCommand(p, "kind", "What was written stays in ClickHouse.", func(ctx context.Context, s *sink.Service, app, kind string) error { return s.Delete(ctx, app, kind) }),
		p.sinkSchemaCommand(),
	)
	return cmd
}

// withSinks runs do with the sinks of the data folder and the named app.
func (p *program) withSinks(cmd *cobra.Command, appName string, do func(ctx context.Context, s *sink.Service, app string) error) error {
	return p.withApp(cmd, appName, func(ctx context.Context, _ *config.Config, apps *store.Apps, name string) error {
		s, err := sink.New(ctx, sink.Config{Store: apps.Sinks, Kinds: feeds.SinkKinds(p.modules), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return do(ctx, s, name)
	})
}

func (p *program) sinks() settings[*sink.Service, sink.Info] {
	return settings[*sink.Service, sink.Info]{
		what: "sink", with: p.withSinks, info: sinkInfo, columns: []string{"SINK", "STATE", "SETTINGS"},
		all: func(ctx context.Context, s *sink.Service, app string) ([]sink.Info, error) { return s.List(ctx, app) },
		row: func(i *sink.Info) []string {
			return []string{i.Kind, enabledText(i.Enabled), valuesText(i.Values, i.View)}
		},
	}
}

func (p *program) sinkAddCommand() *cobra.Command {
	var appName string
	var backfill, disable bool
	cmd := &cobra.Command{
		Use:   "add KIND",
		Short: "Begin to write to a sink, or change it",
		Long: `Begin to write to a sink, or change where it is. The kind is clickhouse. The first batch makes the database's tables;
godwit sink schema prints them. What is not named stays as it is. A password is read from a file, never from an argument, which other users can see; an empty
file takes it away. A sink that stopped goes on when it is set again.`,
		Example: `  godwit sink add clickhouse --clickhouse-url https://clickhouse.internal:8443 --user godwit --password-file clickhouse-password`,
		Args:    exactly("kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			enabled := !disable
			change := sink.Change{Enabled: &enabled, Backfill: &backfill, Private: true}
			return p.withSinks(cmd, appName, func(ctx context.Context, s *sink.Service, name string) error {
				fields, err := s.Fields(args[0])
				if err != nil {
					return err
				}
				if change.Values, err = fieldValues(cmd.Flags(), fields); err != nil {
					return err
				}
				info, created, err := s.Set(ctx, name, args[0], change)
				if err != nil {
					return err
				}
				return p.sinks().added(p, &info, info.Kind, created, info.Enabled, strings.Join(info.Addresses, " "))
			})
		},
	}
	f := cmd.Flags()
	for _, kind := range feeds.SinkKinds(p.modules) {
		fieldFlags(f, kind.Fields())
	}
	f.BoolVar(&backfill, "backfill", false, "begin with all events that the log still has, instead of with what happens from now on")
	f.BoolVar(&disable, "disable", false, "keep the settings, but do not write")
	p.sinks().flags(cmd, &appName)
	return cmd
}

// sinkInfo returns the stored settings of a sink. Only the server that writes to it knows its state: godwit sink status.
func sinkInfo(i *sink.Info) map[string]any {
	v := map[string]any{"sink": i.Kind, "enabled": i.Enabled, "updated_at": i.UpdatedAt}
	return withFields(v, i.Values, i.View)
}

// sinkJSON is the state of a sink as the server reports it.
type sinkJSON struct {
	Sink        string    `json:"sink"`
	State       string    `json:"state"`
	LastError   string    `json:"last_error,omitempty"`
	Written     uint64    `json:"written"`
	Reconciled  uint64    `json:"reconciled"`
	Gaps        uint64    `json:"gaps"`
	LastWritten time.Time `json:"last_written_at"`
	LagMS       int64     `json:"lag_ms"`
}

func (p *program) sinkStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the sinks fare: state, events written, how far behind",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/sinks", nil, unpaged, []string{"SINK", "STATE", "WRITTEN", "LAST", "BEHIND", "ERROR"}, func(s *sinkJSON) []string {
					behind := (time.Duration(s.LagMS) * time.Millisecond).Round(time.Second).String()
					written := strconv.FormatUint(s.Written, 10)
					if s.Gaps > 0 {
						written += fmt.Sprintf(" (%d made anew)", s.Reconciled)
					}
					return []string{s.Sink, s.State, written, moment(s.LastWritten), behind, clean(s.LastError)}
				})
			})
		},
	}
}

func (p *program) sinkSchemaCommand() *cobra.Command {
	database, keep := "godwit", "90d"
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the statements that make ClickHouse's tables",
		Long: `Print the statements that make ClickHouse's tables, for who wants to look before a sink makes them, or to make them as
another user. A sink whose tables are there needs no right to make any.`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			d, err := notification.ParseDuration(keep)
			if err != nil {
				return usagef("--keep: %w", err)
			}
			if err := clickhouse.CheckTarget(database, d); err != nil {
				return usagef("%w", err)
			}
			for _, statement := range clickhouse.Schema(database, d) {
				if _, err := fmt.Fprintf(p.stdout, "%s;\n\n", strings.TrimSpace(statement)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&database, "database", database, "database of the tables")
	cmd.Flags().StringVar(&keep, "keep", keep, "how long ClickHouse keeps events")
	return cmd
}
