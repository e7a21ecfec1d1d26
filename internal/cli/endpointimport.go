package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/audience"
)

const (
	importChunk   = 1000     // endpoints in one request
	maxImportLine = 64 << 10 // of NDJSON: what the server takes
	maxShownBad   = 20       // refused lines that are shown; the others are counted
)

// importOptions say what to make of the lines of a file.
type importOptions struct {
	file, format, channel string
	tags                  []string
	columns               func(others []string) // says what becomes of columns that are no part of an address; nil: they are attributes
}

func (p *program) endpointImportCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Register endpoints from CSV or NDJSON",
		Long: `Register endpoints from a file, or from standard input with -. Doing it again is harmless: an address is one endpoint.

CSV has headings: chat_id (Telegram), endpoint, p256dh, auth (Web Push), token (with channel fcm or apns), url (webhook) or
address (JSON); id, channel, recipient, tags (separated by ; ), locale, timezone. Every other column becomes an attribute;
NAME:text keeps one from being read as numbers. NDJSON has one registration a line, or what export wrote.`,
		Example: `  godwit endpoint import chats.csv --tag drivers
  godwit endpoint export all.ndjson && godwit endpoint import all.ndjson --url https://other.example.org`,
		Args: exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return p.importFile(cmd.Context(), &o, nil)
		},
	}
	s := cmd.Flags()
	s.StringVar(&o.format, "format", "", "csv or ndjson (default: by the file's name, else ndjson)")
	s.StringVar(&o.channel, "channel", "", "channel of lines that name none")
	s.StringArrayVar(&o.tags, "tag", nil, "tag to give to all (repeatable)")
	return cmd
}

// rows yields the endpoints of a file one by one; io.EOF after the last. A *audience.LineError concerns one line alone.
type rows interface {
	Next() (row audience.Row, line int, err error)
}

// importFile registers what a file holds. check, if not nil, may refuse or change a row.
func (p *program) importFile(ctx context.Context, o *importOptions, check func(*audience.Row) error) error {
	in, size, err := p.openInput(o.file)
	if err != nil {
		return err
	}
	defer in.Close()
	format, err := tableFormat(o.format, o.file)
	if err != nil {
		return err
	}
	m := p.meter("registered", size)
	var src rows = &lineReader{in: bufio.NewReaderSize(m.reader(in), maxImportLine)}
	if format == "csv" {
		table, err := audience.NewTableReader(m.reader(in))
		if err != nil {
			return fmt.Errorf("import %s: %w", o.file, err)
		}
		switch names := table.Attributes(); {
		case p.json:
		case o.columns != nil:
			o.columns(names)
		case len(names) > 0:
			fmt.Fprintf(p.stderr, "attributes: %s\n", strings.Join(names, ", "))
		}
		src = table
	}
	return p.withClient(func(c *godwit.Client) error {
		i := &importer{p: p, c: c, o: o, check: check, meter: m}
		err := i.run(ctx, src)
		m.done()
		return i.report(ctx, err)
	})
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

	chunk                              []godwit.NewEndpoint
	lines                              []int // of the chunk
	created, renewed, refused, skipped int
}

func (i *importer) run(ctx context.Context, src rows) error {
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
		Locale: row.Locale, Timezone: row.Timezone,
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
	results, err := i.c.RegisterEndpoints(ctx, i.chunk)
	for at, r := range results {
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

// refuse counts a line that could not be registered and shows the first of them.
func (i *importer) refuse(line int, err error) {
	i.refused++
	if i.p.json || i.refused > maxShownBad {
		return
	}
	i.meter.done()
	fmt.Fprintf(i.p.stderr, "line %d: %v\n", line, err)
	if i.refused == maxShownBad {
		fmt.Fprintln(i.p.stderr, "further refused lines are only counted")
	}
}

// report says what became of the file. Where it ended early, what was registered stays so.
func (i *importer) report(ctx context.Context, err error) error {
	if i.p.json {
		if err := i.p.line(map[string]int{"created": i.created, "renewed": i.renewed, "refused": i.refused, "skipped": i.skipped}); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d registered, %d renewed, %d refused", i.created, i.renewed, i.refused)
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
		return fmt.Errorf("import %s: %d lines were refused", i.o.file, i.refused)
	}
	return nil
}

// lineReader reads NDJSON.
type lineReader struct {
	in   *bufio.Reader
	line int
}

// Next implements rows.
func (l *lineReader) Next() (row audience.Row, line int, err error) {
	for {
		text, err := l.in.ReadSlice('\n')
		l.line++
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = l.in.ReadSlice('\n')
			}
			return row, l.line, &audience.LineError{Line: l.line, Err: fmt.Errorf("has more than %d bytes", maxImportLine)}
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			if err != nil {
				return row, l.line, err
			}
			continue
		}
		var one struct {
			audience.Row
			Status audience.Status `json:"status"`
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return row, l.line, &audience.LineError{Line: l.line, Err: err}
		}
		one.Row.Status = one.Status
		return one.Row, l.line, nil
	}
}
