package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/app/feeds"
)

func (p *program) sinkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Bring an app's events to ClickHouse",
		Long: `Bring an app's events to ClickHouse, complete and each once. The commands need the server's operator key or an API key of role
admin.`,
		Args: subcommandOnly,
		RunE: help,
	}
	sinks := p.sinks()
	cmd.AddCommand(
		p.sinkAddCommand(), sinks.listCommand(p, "List the sinks and their settings, without credentials"), p.sinkStatusCommand(),
		sinks.removeCommand(p, "kind", "What was written stays in ClickHouse."),
		p.sinkSchemaCommand(),
	)
	return cmd
}

func (p *program) sinks() settings[ofKind] {
	kinds := feeds.SinkKinds(p.modules)
	return settings[ofKind]{
		what: "sink", path: "/v1/sinks", columns: []string{"SINK", "STATE", "SETTINGS"},
		row: func(o *ofKind) []string {
			return []string{o.text("sink"), o.state(), o.summary(fieldsOf(kinds[o.text("sink")]))}
		},
	}
}

// fieldsOf returns the fields of a kind; none of one that this program does not know.
func fieldsOf[K interface {
	comparable
	setting.Kind
}](kind K) []setting.Field {
	var none K
	if kind == none {
		return nil
	}
	return kind.Fields()
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
		Args: exactly("kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := setting.KindOf(feeds.SinkKinds(p.modules), args[0], sink.ErrUnknown)
			if err != nil {
				return err
			}
			values, err := fieldValues(cmd.Flags(), kind.Fields())
			if err != nil {
				return err
			}
			body := map[string]json.RawMessage(values)
			body["enabled"], body["backfill"] = setting.JSON(!disable), setting.JSON(backfill)
			return p.withControl(cmd, appName, func(c *control) error {
				var now ofKind
				if err := c.call(cmd, http.MethodPut, p.sinks().at(args[0]), body, &now); err != nil {
					return fmt.Errorf("set sink %s: %w", args[0], err)
				}
				return p.printAdded("sink", args[0], now, kind.Fields())
			})
		},
	}
	f := cmd.Flags()
	for _, kind := range feeds.SinkKinds(p.modules) {
		fieldFlags(f, kind.Fields())
	}
	f.BoolVar(&backfill, "backfill", false, "begin with all events that the log still has, instead of with what happens from now on")
	f.BoolVar(&disable, "disable", false, "keep the settings, but do not write")
	p.sinks().changeFlags(p, cmd, &appName)
	return cmd
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
