package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/tables"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

const (
	importPath      = "/ui/audience/import"
	importCheckPath = importPath + "/check" // reads the file and registers nothing
	// maxImport limits a file of endpoints, in bytes: some 300,000 lines. The command line accepts files of any size.
	maxImport = 64 << 20
	// importChunk is the number of endpoints registered at once.
	importChunk = 500
	// mostBadLines limits the bad lines that the page names; the report has more.
	mostBadLines = 20
	maxOption    = 256 // limits each of the form's other fields, in bytes
)

// shownColumn is a column of a file, with the meaning found for it.
type shownColumn struct {
	Heading, Becomes string
	Samples          []string
}

// tableImport is the page of an import: the form, the columns of the file, and the result.
type tableImport struct {
	Channel, Encoding, Separator, Tag string
	Channels                          []push.Channel
	Dry                               bool

	Problem string // nothing was read
	Found   string // how the file is read; empty: no file was read
	Columns []shownColumn
	First   []shownRow // as they are stored
	Lines   []string   // problems of single lines
	Report  *lineReport

	Accepted, Created, Refused, Skipped, Warned int
	Undo                                        *importUndo // nil: nothing can be undone
	Undone                                      *importUndo // nil: nothing is being undone

	app     string
	lang    *words.Language
	started time.Time
	do      func(list []audience.Endpoint, lines []int) error // registers a chunk, or only checks it in a trial
}

func (a *admin) showImport(v *visit) error {
	return a.show(v, "import", v.t("Import"), "audience", &tableImport{Channels: push.Channels(), Tag: "import-" + a.now().UTC().Format("2006-01-02-1504")})
}

// checkTable reads a file and shows how it would be imported.
func (a *admin) checkTable(v *visit) error { return a.readTable(v, true) }

// importTable reads a file while it arrives, after the form's fields. Registered endpoints stay registered when a later line fails.
func (a *admin) importTable(v *visit) error { return a.readTable(v, false) }

func (a *admin) readTable(v *visit, dry bool) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(v.r.Context()), longest, fmt.Errorf("the file was not read in %s", longest))
	defer cancel()
	t := &tableImport{Channels: push.Channels(), app: v.person.App, lang: v.lang, Dry: dry, Report: newLineReport(v.lang), started: a.now()}
	t.do = func(list []audience.Endpoint, lines []int) error { return a.registerChunk(ctx, v, t, list, lines) }
	rc := http.NewResponseController(v.w)
	err := t.read(v.r, func() { _ = rc.SetReadDeadline(time.Now().Add(partTime)) }) // fails only for a test's writer, which has no deadlines
	_ = rc.SetWriteDeadline(time.Now().Add(partTime))                               // the same
	var wrong *mistake
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		t.Problem = v.t("The file has more than %s MB: send it in parts. What was registered before stays.", maxImport>>20)
	case errors.As(err, &wrong):
		t.Problem = wrong.in(v.lang)
	case err != nil:
		return err
	}
	v.again = t.Dry || t.Found == ""
	if !v.again {
		t.undoable(a.now())
		a.Log.InfoContext(ctx, "endpoints imported on the web page", "app", t.app, "accepted", t.Accepted, "refused", t.Refused, "by", v.person.Name())
	}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "import", "imported", t)
	}
	return a.show(v, "import", v.t("Import"), "audience", t)
}

func badFile(text string, args ...any) error {
	return mistaken(http.StatusUnprocessableEntity, text, args...)
}

// read reads the form.
func (t *tableImport) read(r *http.Request, more func()) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return badFile("The form could not be read.")
	}
	for {
		more()
		p, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return badFile("Choose a file.")
		case err != nil:
			return unread(err)
		case p.FormName() == "file":
			return t.readFile(p, more)
		}
		b, err := io.ReadAll(io.LimitReader(p, maxOption))
		if err != nil {
			return unread(err)
		}
		if to, ok := map[string]*string{"channel": &t.Channel, "encoding": &t.Encoding, "separator": &t.Separator, "tag": &t.Tag}[p.FormName()]; ok {
			*to = strings.TrimSpace(string(b))
		}
		t.Dry = t.Dry || p.FormName() == "dry"
	}
}

// unread returns the error for a form that did not arrive whole.
func unread(err error) error {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return err
	}
	return badFile("The file did not come whole. What was registered before stays.")
}

// patient gives a browser a new deadline for each part of a file.
type patient struct {
	io.Reader
	more func()
}

func (p patient) Read(b []byte) (int, error) {
	p.more()
	return p.Reader.Read(b)
}

func (t *tableImport) readFile(p *multipart.Part, more func()) error {
	if p.FileName() == "" {
		return badFile("Choose a file.")
	}
	o := tables.Options{Format: "csv", Encoding: t.Encoding, Separator: t.Separator}
	if slices.Contains([]string{".ndjson", ".jsonl", ".json"}, strings.ToLower(path.Ext(p.FileName()))) {
		o.Format = "ndjson"
	}
	src, err := tables.Open(patient{p, more}, o)
	var ask *tables.AskError
	switch {
	case errors.As(err, &ask):
		return badFile("The file is not UTF-8, and which encoding it has cannot be known: say it above. Files of Excel for Windows in Western Europe are in windows-1252.")
	case err != nil:
		return badFile("The file cannot be read: %s.", lineProblem(t.lang, err))
	}
	t.Found = howRead(t.lang, src)
	for _, c := range src.Columns() {
		t.Columns = append(t.Columns, shownColumn{c.Heading, tableText(t.lang, c.Becomes()), c.Samples})
	}
	var chunk []audience.Endpoint
	var lines []int
	for {
		row, line, err := src.Next()
		var bad *audience.LineError
		switch {
		case errors.Is(err, io.EOF):
			return t.do(chunk, lines)
		case errors.As(err, &bad):
			t.refuse(bad.Line, bad.Err)
			continue
		case err != nil:
			if err := t.do(chunk, lines); err != nil {
				return err
			}
			return unread(err)
		case row.Status == audience.Disabled:
			t.Skipped++ // importing would wake it
			continue
		}
		t.warn(line, row.Warnings)
		e, err := t.endpoint(&row)
		if err != nil {
			t.refuse(line, err)
			continue
		}
		chunk, lines = append(chunk, e), append(lines, line)
		if len(chunk) == importChunk {
			if err := t.do(chunk, lines); err != nil {
				return err
			}
			chunk, lines = chunk[:0], lines[:0]
		}
	}
}

func (t *tableImport) endpoint(row *audience.Row) (e audience.Endpoint, err error) {
	e = audience.Endpoint{
		Channel: row.Channel, Recipient: row.Recipient, Address: row.Address, Tags: row.Tags, Attributes: row.Attributes, Locale: row.Locale, Timezone: row.Timezone,
	}
	if e.Channel == "" {
		e.Channel = push.Channel(t.Channel)
	}
	if t.Tag != "" {
		e.Tags = append(e.Tags, t.Tag)
	}
	if row.ID != "" {
		e.ID, err = audience.ParseID(row.ID)
	}
	return e, err
}

func (t *tableImport) refuse(line int, err error) {
	t.Refused++
	problem := lineProblem(t.lang, err)
	t.Report.add(line, t.lang.T("refused: %s", problem))
	t.say(t.lang.T("Line %[1]s is refused: %[2]s", line, problem))
}

func (t *tableImport) warn(line int, warnings []string) {
	for _, w := range warnings {
		t.Warned++
		said := tableText(t.lang, w)
		t.Report.add(line, said)
		t.say(t.lang.T("Line %[1]s: %[2]s", line, said))
	}
}

func (t *tableImport) say(text string) {
	if len(t.Lines) < mostBadLines {
		t.Lines = append(t.Lines, text)
	}
}

// registerChunk checks endpoints by the rules of registrations, and registers them unless it is a trial.
func (a *admin) registerChunk(ctx context.Context, v *visit, t *tableImport, list []audience.Endpoint, lines []int) error {
	var regs []audience.Registration
	var at []int
	for i := range list {
		r, err := a.Audience.Registration(backEnd(v), list[i])
		if err != nil {
			t.refuse(lines[i], err)
			continue
		}
		t.warn(lines[i], r.Dropped)
		if len(t.First) < firstRows {
			t.First = append(t.First, newShownRow(v.lang, lines[i], &r.Endpoint))
		}
		regs, at = append(regs, r), append(at, lines[i])
	}
	if t.Dry {
		t.Accepted += len(regs)
		return nil
	}
	if len(regs) == 0 {
		return nil
	}
	done, err := a.Audience.Register(ctx, t.app, regs)
	if err != nil {
		return err
	}
	for i := range done {
		if done[i].Err != nil {
			t.refuse(at[i], done[i].Err)
		} else {
			t.Accepted++
			if done[i].Created {
				t.Created++
			}
		}
	}
	return nil
}
