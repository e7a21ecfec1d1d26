package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/tables"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	importChunk = 1000 // endpoints in one request
	maxShownBad = 20   // limits the refused lines shown; further ones are only counted
)

// importOptions define how the lines of a file are interpreted.
type importOptions struct {
	file, channel string
	read          tables.Options
	tags          []string
	dry           bool
	columns       func(list []tables.Column) // prints the use of each column; nil: the columns are listed
	said          map[string]any             // what the JSON answer says besides its numbers
}

func (o *importOptions) flags(s *pflag.FlagSet) {
	s.StringVar(&o.read.Encoding, "encoding", "", "of the file, like windows-1252 or utf-16le (default: found, where it can be known)")
	s.StringVar(&o.read.Separator, "separator", "", "of CSV: comma, semicolon, tab or pipe (default: found)")
	s.BoolVar(&o.dry, "dry-run", false, "show how the file is read and what would be refused, and register nothing")
}

func (p *program) endpointImportCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Register endpoints from CSV or NDJSON",
		Long: `Register endpoints from a file, or from standard input with -. Doing it again is harmless: an address is one endpoint.

CSV has headings: chat_id (Telegram), endpoint, p256dh, auth (Web Push), token (with channel fcm or apns), url (webhook) or
address (JSON); id, channel, recipient, tags (separated by ; or a JSON list), locale, timezone. Every other column becomes an
attribute. One that holds nothing but numbers, or true and false, is read as such; NAME:text, NAME:number and NAME:bool say it.
NDJSON has one registration a line, or what export wrote. UTF-8 and UTF-16 are found, and so is what separates the cells;
other encodings are named. A line that cannot be read is refused with its number, and the others are registered.`,
		Args: exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return p.importFile(cmd.Context(), &o, nil)
		},
	}
	s := cmd.Flags()
	o.flags(s)
	s.StringVar(&o.read.Format, "format", "", "csv or ndjson (default: by the file's name, else ndjson)")
	s.StringVar(&o.channel, "channel", "", "channel of lines that name none")
	s.StringArrayVar(&o.tags, "tag", nil, "tag to give to all (repeatable)")
	return cmd
}

// importFile registers the endpoints in a file. check, if not nil, may refuse or change a row.
func (p *program) importFile(ctx context.Context, o *importOptions, check func(*audience.Row) error) error {
	in, size, err := p.openInput(o.file)
	if err != nil {
		return err
	}
	defer in.Close()
	if o.read.Format, err = tableFormat(o.read.Format, o.file); err != nil {
		return err
	}
	m := p.meter(map[bool]string{true: "read", false: "registered"}[o.dry], size)
	src, err := tables.Open(m.reader(in), o.read)
	var ask *textfile.AskError
	switch {
	case errors.As(err, &ask):
		return withHint(fmt.Errorf("import %s: %w", o.file, err), "say --encoding windows-1252 if it is from Excel for Windows in Western Europe, and look with --dry-run first")
	case err != nil:
		return fmt.Errorf("import %s: %w", o.file, err)
	}
	if err := p.showTable(o, src); err != nil {
		return err
	}
	i := &importer{p: p, o: o, check: check, meter: m}
	if o.dry {
		err := i.run(ctx, src)
		m.done()
		return i.report(ctx, src, err)
	}
	return p.withClient(func(c *godwit.Client) error {
		i.c = c
		err := i.run(ctx, src)
		m.done()
		return i.report(ctx, src, err)
	})
}

// showTable prints how a file is interpreted.
func (p *program) showTable(o *importOptions, src *tables.Reader) error {
	list := src.Columns()
	switch {
	case p.json:
		if o.columns != nil {
			o.columns(list)
		}
		return nil
	case o.dry:
		fmt.Fprintf(p.stdout, "%s\n", src.Found())
		rows := make([][]string, len(list))
		for i := range list {
			rows[i] = []string{clean(list[i].Heading), clean(list[i].Becomes()), clean(strings.Join(list[i].Samples, ", "))}
		}
		if len(rows) == 0 {
			return nil
		}
		return p.table([]string{"COLUMN", "READ AS", "FOR EXAMPLE"}, rows)
	case o.columns != nil:
		o.columns(list)
		return nil
	}
	var attributes, typed, left []string
	for i := range list {
		switch c := &list[i]; {
		case c.Attribute():
			attributes = append(attributes, c.Name)
			if c.Typed() {
				typed = append(typed, strings.TrimPrefix(c.Becomes(), "attribute "))
			}
		case c.Dropped() && c.Heading != "":
			left = append(left, c.Heading)
		}
	}
	if len(attributes) > 0 {
		fmt.Fprintf(p.stderr, "attributes: %s\n", strings.Join(attributes, ", "))
	}
	for _, said := range typed {
		fmt.Fprintf(p.stderr, "read as: %s\n", clean(said))
	}
	if len(left) > 0 {
		fmt.Fprintf(p.stderr, "not stored: %s\n", clean(strings.Join(left, ", ")))
	}
	return nil
}

func (p *program) openInput(file string) (in io.ReadCloser, size int64, err error) {
	if file == "-" {
		return io.NopCloser(p.stdin), 0, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, fmt.Errorf("import endpoints: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// importer sends rows in chunks, so that memory does not grow with the file.
type importer struct {
	p     *program
	c     *godwit.Client
	o     *importOptions
	check func(*audience.Row) error
	meter *meter

	chunk                                      []godwit.NewEndpoint
	lines                                      []int // of the chunk
	created, renewed, refused, skipped, warned int
	bad                                        []badLine // the first refused lines, for programs
}

// badLine is a refused line in an import's JSON.
type badLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

func (i *importer) run(ctx context.Context, src *tables.Reader) error {
	for {
		row, line, err := src.Next()
		var bad *audience.LineError
		switch {
		case errors.Is(err, io.EOF):
			return i.send(ctx)
		case errors.As(err, &bad):
			i.refuse(bad.Line, bad.Err)
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", i.o.file, err)
		}
		if i.check != nil {
			if err := i.check(&row); err != nil {
				i.refuse(line, err)
				continue
			}
		}
		if row.Status == audience.Disabled {
			i.skipped++ // importing would wake it
			continue
		}
		i.warn(line, row.Warnings)
		i.take(&row, line)
		if len(i.chunk) == importChunk {
			if err := i.send(ctx); err != nil {
				return err
			}
		}
	}
}

func (i *importer) take(row *audience.Row, line int) {
	n := godwit.NewEndpoint{
		ID: row.ID, Channel: string(row.Channel), Recipient: row.Recipient, Address: row.Address, Tags: append(row.Tags, i.o.tags...),
		Locale: row.Locale, Timezone: row.Timezone, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
	}
	if n.Channel == "" {
		n.Channel = i.o.channel
	}
	if len(row.Attributes) > 0 {
		n.Attributes = make(map[string]any, len(row.Attributes))
		for name, v := range row.Attributes {
			n.Attributes[name] = v
		}
	}
	i.chunk, i.lines = append(i.chunk, n), append(i.lines, line)
}

func (i *importer) send(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	if i.o.dry {
		i.try()
		return ctx.Err()
	}
	results, err := i.c.RegisterEndpoints(ctx, i.chunk)
	for at, r := range results {
		i.warn(i.lines[at], r.Warnings)
		switch {
		case r.Err != nil:
			i.refuse(i.lines[at], r.Err)
		case r.Created:
			i.created++
		default:
			i.renewed++
		}
	}
	i.meter.add(len(results))
	i.chunk, i.lines = i.chunk[:0], i.lines[:0]
	return err
}

// try checks a chunk by the server's rules, without a server.
func (i *importer) try() {
	for at := range i.chunk {
		e, err := endpointOf(&i.chunk[at])
		if err == nil {
			i.warn(i.lines[at], e.DropUnknownHints())
			err = e.Check()
		}
		if err != nil {
			i.refuse(i.lines[at], err)
		} else {
			i.created++
		}
	}
	i.meter.add(len(i.chunk))
	i.chunk, i.lines = i.chunk[:0], i.lines[:0]
}

func endpointOf(n *godwit.NewEndpoint) (e audience.Endpoint, err error) {
	e = audience.Endpoint{Channel: push.Channel(n.Channel), Recipient: n.Recipient, Address: n.Address, Tags: n.Tags, Locale: n.Locale, Timezone: n.Timezone}
	for name, v := range n.Attributes {
		if e.Attributes == nil {
			e.Attributes = audience.Attributes{}
		}
		if value, ok := v.(audience.Value); ok {
			e.Attributes[name] = value
		}
	}
	if n.ID != "" {
		_, err = audience.ParseID(n.ID)
	}
	return e, err
}

// warn counts the warnings about lines and shows the first few.
func (i *importer) warn(line int, warnings []string) {
	for _, w := range warnings {
		if i.warned++; i.p.json || i.warned > maxShownBad {
			continue
		}
		i.meter.done()
		fmt.Fprintf(i.p.stderr, "line %d: warning: %s\n", line, clean(w))
		if i.warned == maxShownBad {
			fmt.Fprintln(i.p.stderr, "further warnings are only counted")
		}
	}
}

// refuse counts a line that could not be registered, and shows the first such lines.
func (i *importer) refuse(line int, err error) {
	i.refused++
	if i.refused > maxShownBad {
		return
	}
	if i.p.json {
		i.bad = append(i.bad, badLine{line, err.Error()})
		return
	}
	i.meter.done()
	fmt.Fprintf(i.p.stderr, "line %d: %v\n", line, err)
	if i.refused == maxShownBad {
		fmt.Fprintln(i.p.stderr, "further refused lines are only counted")
	}
}

// report prints the result of an import. If it ended early, the endpoints registered before remain registered.
func (i *importer) report(ctx context.Context, src *tables.Reader, err error) error {
	if i.p.json {
		said := map[string]any{"created": i.created, "renewed": i.renewed, "refused": i.refused, "skipped": i.skipped}
		if i.warned > 0 {
			said["warnings"] = i.warned
		}
		if i.o.dry {
			said = i.dryJSON(src)
		}
		if len(i.bad) > 0 {
			said["refused_lines"] = i.bad
		}
		maps.Copy(said, i.o.said)
		if err := i.p.line(said); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d registered, %d renewed, %d refused", i.created, i.renewed, i.refused)
		if i.o.dry {
			text = fmt.Sprintf("%d would be registered or renewed, %d refused", i.created, i.refused)
		}
		if i.warned > 0 {
			text += ", " + someWarnings(i.warned)
		}
		if i.skipped > 0 {
			text += fmt.Sprintf(", %d skipped since they are disabled", i.skipped)
		}
		if _, err := fmt.Fprintln(i.p.stdout, text); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return withHint(errors.New("the import was interrupted"), "run it again: what is registered already is only renewed")
	case err != nil:
		return fmt.Errorf("import %s: %w", i.o.file, err)
	case i.refused > 0:
		return fmt.Errorf("import %s: %s refused", i.o.file, someLines(i.refused))
	}
	return nil
}

func someWarnings(n int) string {
	if n == 1 {
		return "1 warning"
	}
	return fmt.Sprintf("%d warnings", n)
}

func someLines(n int) string {
	if n == 1 {
		return "1 line was"
	}
	return fmt.Sprintf("%d lines were", n)
}

// dryJSON returns the result of a dry run, for programs.
func (i *importer) dryJSON(src *tables.Reader) map[string]any {
	columns := []map[string]any{}
	for _, c := range src.Columns() {
		columns = append(columns, map[string]any{"heading": c.Heading, "read_as": c.Becomes(), "samples": c.Samples})
	}
	return map[string]any{"dry_run": true, "found": src.Found(), "columns": columns, "accepted": i.created, "refused": i.refused, "skipped": i.skipped, "warnings": i.warned}
}
