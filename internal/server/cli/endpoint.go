package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/push"
)

func (p *program) endpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoint",
		Short: "Manage push addresses: of recipients and of anonymous subscribers",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(
		p.endpointAddCommand(), p.endpointListCommand(), p.endpointGetCommand(), p.endpointSetCommand(), p.endpointRemoveCommand(),
		p.endpointCountCommand(), p.endpointImportCommand(), p.endpointExportCommand(),
	)
	return cmd
}

// endpointText prints an endpoint for people.
func (p *program) endpointText(e *godwit.Endpoint) error {
	if p.json {
		return p.line(e)
	}
	rows := [][]string{
		{"ID", e.ID},
		{"CHANNEL", e.Channel},
		{"RECIPIENT", e.Recipient},
		{"ADDRESS", clean(string(e.Address))},
		{"TAGS", clean(strings.Join(e.Tags, ", "))},
		{"ATTRIBUTES", attributesText(e.Attributes)},
		{"LOCALE", e.Locale},
		{"TIMEZONE", e.Timezone},
		{"STATUS", statusText(e)},
		{"CREATED", e.CreatedAt.Local().Format(time.DateTime)},
	}
	return p.table(rows[0], rows[1:])
}

func statusText(e *godwit.Endpoint) string {
	if e.DisabledReason != "" {
		return e.Status + ": " + clean(e.DisabledReason)
	}
	return e.Status
}

func attributesText(a map[string]any) string {
	if len(a) == 0 {
		return ""
	}
	b, err := json.Marshal(a)
	if err != nil {
		return "?"
	}
	return clean(string(b))
}

// endpointFields holds the flags for facts about a subscriber.
type endpointFields struct {
	recipient, locale, timezone, address string
	tags, attributes                     []string
}

func (f *endpointFields) flags(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.recipient, "recipient", "", "whose it is")
	s.StringVar(&f.address, "address", "", "address as JSON, or @FILE; for webpush the browser's subscription")
	s.StringArrayVar(&f.tags, "tag", nil, "tag (repeatable)")
	s.StringArrayVar(&f.attributes, "attr", nil, "attribute, NAME=VALUE: a number, true, false, else a text (repeatable)")
	s.StringVar(&f.locale, "locale", "", "language, like nb-NO")
	s.StringVar(&f.timezone, "timezone", "", "time zone, like Europe/Oslo")
}

// json reads the address.
func (f *endpointFields) json() (json.RawMessage, error) {
	text := f.address
	if file, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read address: %w", err)
		}
		text = textfile.Plain(b)
	}
	if !json.Valid([]byte(text)) {
		return nil, usagef("--address is not JSON")
	}
	return json.RawMessage(text), nil
}

func attributesOf(flags []string) (map[string]any, error) {
	if len(flags) == 0 {
		return nil, nil
	}
	a := make(map[string]any, len(flags))
	for _, kv := range flags {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, usagef("--attr %s is not NAME=VALUE", kv)
		}
		a[name] = audience.Guess(value)
	}
	return a, nil
}

func (p *program) endpointAddCommand() *cobra.Command {
	var f endpointFields
	var channel, chat, token, hook string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Register an endpoint; one of the same address is renewed",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n := godwit.NewEndpoint{Channel: channel, Recipient: f.recipient, Tags: f.tags, Locale: f.locale, Timezone: f.timezone}
			var err error
			switch {
			case f.address != "":
				n.Address, err = f.json()
			case chat != "":
				n.Address, err = json.Marshal(map[string]string{"chat_id": chat})
				channel = "telegram"
			case hook != "":
				n.Address, err = json.Marshal(map[string]string{"url": hook})
				channel = "webhook"
			case token != "":
				n.Address, err = json.Marshal(map[string]string{"token": token})
			}
			if err != nil {
				return err
			}
			if n.Channel == "" {
				n.Channel = channel
			}
			if n.Attributes, err = attributesOf(f.attributes); err != nil {
				return err
			}
			return p.withClient(func(c *godwit.Client) error {
				r, err := c.RegisterEndpoint(cmd.Context(), n)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(r)
				}
				what := "registered"
				if !r.Created {
					what = "renewed"
				}
				_, err = fmt.Fprintf(p.stdout, "%s %s\n", p.paint(green, what), r.ID)
				return err
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&channel, "channel", "", "channel: "+strings.Join(channelNames(), ", "))
	cmd.Flags().StringVar(&chat, "chat-id", "", "Telegram chat (channel telegram)")
	cmd.Flags().StringVar(&token, "token", "", "device token (channels fcm and apns)")
	cmd.Flags().StringVar(&hook, "hook-url", "", "URL (channel webhook)")
	return cmd
}

func filterFlags(cmd *cobra.Command, f *godwit.EndpointFilter) {
	s := cmd.Flags()
	s.StringVar(&f.Channel, "channel", "", "only of this channel")
	s.StringVar(&f.Recipient, "recipient", "", "only of this recipient")
	s.StringVar(&f.Tag, "tag", "", "only with this tag")
	s.StringVar(&f.Status, "status", "", "only active or disabled ones")
	s.StringVar(&f.Segment, "segment", "", "only in this stored segment")
	s.StringVar(&f.Where, "where", "", `only where this holds, like 'city = "Oslo" and age >= 18'`)
}

func (p *program) endpointListCommand() *cobra.Command {
	var f godwit.EndpointFilter
	limit := 0
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List endpoints",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				rows := [][]string{}
				n := 0
				for e, err := range c.Endpoints(cmd.Context(), f) {
					if err != nil {
						return err
					}
					if n++; limit > 0 && n > limit {
						break
					}
					if p.json {
						if err := p.line(e); err != nil {
							return err
						}
						continue
					}
					rows = append(rows, []string{e.ID, e.Channel, e.Recipient, clean(strings.Join(e.Tags, ",")), attributesText(e.Attributes), statusText(&e)})
				}
				if p.json {
					return nil
				}
				if err := p.table([]string{"ID", "CHANNEL", "RECIPIENT", "TAGS", "ATTRIBUTES", "STATUS"}, rows); err != nil {
					return err
				}
				if limit > 0 && n > limit {
					fmt.Fprintf(p.stderr, "there are more: raise --limit, or use godwit endpoint export\n")
				}
				return nil
			})
		},
	}
	filterFlags(cmd, &f)
	cmd.Flags().IntVar(&limit, "limit", 100, "most endpoints to list; 0: all")
	return cmd
}

func (p *program) endpointGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show one endpoint",
		Args:  exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				e, err := c.Endpoint(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return p.endpointText(&e)
			})
		},
	}
}

func (p *program) endpointSetCommand() *cobra.Command {
	var f endpointFields
	var addTags, removeTags, unset []string
	var status, reason string
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change an endpoint",
		Long:  "Change an endpoint. Only what is named changes; an empty value takes it away. --tag replaces all tags.",
		Args:  exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := map[string]any{}
			given := cmd.Flags().Changed
			for flag, v := range map[string]struct {
				field string
				value any
			}{
				"recipient": {"recipient", f.recipient}, "locale": {"locale", f.locale}, "timezone": {"timezone", f.timezone}, "tag": {"tags", f.tags},
				"add-tag": {"add_tags", addTags}, "remove-tag": {"remove_tags", removeTags}, "status": {"status", status}, "reason": {"disabled_reason", reason},
			} {
				if given(flag) {
					change[v.field] = v.value
				}
			}
			attributes, err := attributesOf(f.attributes)
			if err != nil {
				return err
			}
			for _, name := range unset {
				if attributes == nil {
					attributes = map[string]any{}
				}
				attributes[name] = nil
			}
			if attributes != nil {
				change["attributes"] = attributes
			}
			if f.address != "" {
				if change["address"], err = f.json(); err != nil {
					return err
				}
			}
			if len(change) == 0 {
				return withHint(usagef("nothing to change"), "name what to change, like --add-tag vip or --attr city=Oslo")
			}
			return p.withClient(func(c *godwit.Client) error {
				e, err := c.ChangeEndpoint(cmd.Context(), args[0], change)
				if err != nil {
					return err
				}
				return p.endpointText(&e)
			})
		},
	}
	f.flags(cmd)
	s := cmd.Flags()
	s.StringArrayVar(&addTags, "add-tag", nil, "tag to add (repeatable)")
	s.StringArrayVar(&removeTags, "remove-tag", nil, "tag to take away (repeatable)")
	s.StringArrayVar(&unset, "unset", nil, "attribute to take away (repeatable)")
	s.StringVar(&status, "status", "", "active or disabled")
	s.StringVar(&reason, "reason", "", "why it is disabled")
	return cmd
}

func (p *program) endpointRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID",
		Aliases: []string{"delete"},
		Short:   "Delete an endpoint",
		Args:    exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				if err := c.DeleteEndpoint(cmd.Context(), args[0]); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "Endpoint %s is deleted.\n", args[0])
				return err
			})
		},
	}
}

func (p *program) endpointCountCommand() *cobra.Command {
	var a godwit.Audience
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count the active endpoints of an audience, as a campaign would reach them now",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				n, err := c.CountAudience(cmd.Context(), a)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(n)
				}
				return p.printCount(cmd.Context(), n)
			})
		},
	}
	s := cmd.Flags()
	s.StringSliceVar(&a.Channels, "channel", nil, "channels")
	s.StringSliceVar(&a.Recipients, "recipient", nil, "recipients")
	s.StringArrayVar(&a.TagsAny, "tag-any", nil, "with at least one of these tags (repeatable)")
	s.StringArrayVar(&a.TagsAll, "tag-all", nil, "with all of these tags (repeatable)")
	s.StringVar(&a.Segment, "segment", "", "in this stored segment")
	s.StringVar(&a.Where, "where", "", "where this holds: a segment expression")
	return cmd
}

func (p *program) printCount(_ context.Context, n godwit.AudienceCount) error {
	rows := [][]string{}
	for _, ch := range push.Channels() {
		if m := n.Channels[string(ch)]; m > 0 {
			rows = append(rows, []string{string(ch), fmt.Sprint(m)})
		}
	}
	return p.table([]string{"all", fmt.Sprint(n.Count)}, rows)
}

func (p *program) endpointExportCommand() *cobra.Command {
	var f godwit.EndpointFilter
	var format string
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write endpoints with their addresses as CSV or NDJSON",
		Long:  "Write endpoints with their addresses to a file, or to standard output. The format is that of the file's name unless --format says otherwise.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("file")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := strings.Join(args, "")
			format, err := tableFormat(format, file)
			if err != nil {
				return err
			}
			return p.withClient(func(c *godwit.Client) error {
				if file == "" || file == "-" {
					return c.ExportEndpoints(cmd.Context(), p.stdout, format, f)
				}
				return p.exportTo(cmd.Context(), c, file, format, f)
			})
		},
	}
	filterFlags(cmd, &f)
	cmd.Flags().StringVar(&format, "format", "", "csv or ndjson (default: by the file's name, else ndjson)")
	return cmd
}

// exportTo writes a file that appears under its name only when it is whole. Only its owner can read it.
func (p *program) exportTo(ctx context.Context, c *godwit.Client, file, format string, f godwit.EndpointFilter) error {
	part := file + ".part"
	out, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("export endpoints: %w", err)
	}
	meter := p.meter("exported", 0)
	err = c.ExportEndpoints(ctx, &rowCounter{w: out, seen: meter.add, csv: format == "csv"}, format, f)
	meter.done()
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part) // the first error is the one that matters
		return err
	}
	n := meter.n
	if format == "csv" && n > 0 {
		n-- // the headings
	}
	if p.json {
		return p.line(map[string]any{"file": file, "endpoints": n})
	}
	held := fmt.Sprintf("%d endpoints, with the secrets in their addresses", n)
	if n == 1 {
		held = "1 endpoint, with the secrets in its address"
	}
	_, err = fmt.Fprintln(p.stdout, file, "holds", held)
	return err
}

// tableFormat returns csv or ndjson: the given format, or else that of the file's name.
func tableFormat(format, file string) (string, error) {
	switch {
	case format == "csv" || format == "ndjson":
		return format, nil
	case format != "":
		return "", usagef("--format %s is none of csv, ndjson", format)
	case strings.HasSuffix(strings.ToLower(file), ".csv"):
		return "csv", nil
	}
	return "ndjson", nil
}
