package cli

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (p *program) sourceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "Take an app's notifications from Redis streams",
		Long: `Take an app's notifications from where its publishers already put them: the Redis streams of nammayatri's
notification-service. The settings are kept in the data folder; a server that runs on it notices within a second.`,
		Args: subcommandOnly,
		RunE: help,
	}
	sources := p.sources()
	cmd.AddCommand(
		p.sourceAddCommand(), sources.listCommand(p, "List the sources and their settings, without credentials"),
		sources.removeCommand(p, "What was not taken yet stays in Redis.", func(ctx context.Context, s *source.Service, app, kind string) error { return s.Delete(ctx, app, kind) }),
	)
	return cmd
}

// withSources runs do with the sources of the data folder and the named app.
func (p *program) withSources(cmd *cobra.Command, appName string, do func(ctx context.Context, s *source.Service, app string) error) error {
	return p.withApp(cmd, appName, func(ctx context.Context, _ *config.Config, apps *store.Apps, name string) error {
		s, err := source.New(ctx, source.Config{Store: apps.Sources, Kinds: feeds.SourceKinds(p.modules), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return do(ctx, s, name)
	})
}

func (p *program) sources() settings[*source.Service, source.Info] {
	return settings[*source.Service, source.Info]{
		what: "source", with: p.withSources, info: sourceInfo, columns: []string{"SOURCE", "STATE", "SETTINGS"},
		all: func(_ context.Context, s *source.Service, app string) ([]source.Info, error) { return s.List(app), nil },
		row: func(i *source.Info) []string {
			return []string{i.Kind, enabledText(i.Enabled), valuesText(i.Values, i.View)}
		},
	}
}

func (p *program) sourceAddCommand() *cobra.Command {
	var appName string
	var disable bool
	cmd := &cobra.Command{
		Use:   "add KIND",
		Short: "Begin to read a source, or change it",
		Long: `Begin to read a source, or change what is read. The kind is redisstream: streams named N<recipient>{<shard>}, as
publishers of nammayatri's notification-service write them. An entry becomes a notification to its recipient and is
deleted in Redis once it is stored. A password is read from a file, never from an argument, which other users can see; it stays as it is
where none is named, and an empty file takes it away.`,
		Example: `  godwit source add redisstream --redis-url redis://redis.internal:6379 --password-file redis-password`,
		Args:    exactly("kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			enabled := !disable
			change := source.Change{Enabled: &enabled, Private: true}
			return p.withSources(cmd, appName, func(ctx context.Context, s *source.Service, name string) error {
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
				return p.sources().added(p, &info, info.Kind, created, info.Enabled, strings.Join(info.Addresses, " "))
			})
		},
	}
	f := cmd.Flags()
	for _, kind := range feeds.SourceKinds(p.modules) {
		fieldFlags(f, kind.Fields())
	}
	f.BoolVar(&disable, "disable", false, "keep the settings, but do not read")
	p.sources().flags(cmd, &appName)
	return cmd
}

// sourceInfo returns the stored settings of a source. Only the server that reads it knows its state: GET /v1/sources.
func sourceInfo(i *source.Info) map[string]any {
	v := map[string]any{"source": i.Kind, "enabled": i.Enabled, "updated_at": i.UpdatedAt}
	return withFields(v, i.Values, i.View)
}
