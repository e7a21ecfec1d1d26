package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"maps"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

const (
	firstRows    = 5
	mostProblem  = 200      // characters of a line's problem
	mostReported = 40 << 10 // bytes of a report: it lies within the page
)

// lineReport is a table with the problems of single lines, in the reader's language. It is in the page itself, so that no server has to keep
// it.
type lineReport struct {
	Lines int // that it has
	Left  int // lines with a problem for which it has no room
	text  bytes.Buffer
	rows  *csv.Writer
}

// byteOrderMark tells spreadsheets that a file is UTF-8.
const byteOrderMark = "\ufeff"

func newLineReport(l *words.Language) *lineReport {
	r := &lineReport{}
	r.text.WriteString(byteOrderMark)
	r.rows = csv.NewWriter(&r.text)
	if strings.Contains(l.Decimal(0.5), ",") { // spreadsheets of such a language separate cells by semicolons
		r.rows.Comma = ';'
	}
	r.row(l.T("line"), l.T("problem"))
	return r
}

func (r *lineReport) row(cells ...string) {
	_ = r.rows.Write(cells) // into memory
	r.rows.Flush()
}

// add writes a line. A text that a spreadsheet would take for a formula gets a mark before it.
func (r *lineReport) add(line int, problem string) {
	problem = clip(problem, mostProblem)
	if strings.ContainsAny(problem[:min(1, len(problem))], "=+-@") {
		problem = "'" + problem
	}
	if r.text.Len() > mostReported {
		r.Left++
		return
	}
	r.row(strconv.Itoa(line), problem)
	r.Lines++
}

// file returns the report as the address of a link.
func (r *lineReport) file() template.URL {
	return template.URL("data:text/csv;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(r.text.Bytes()))
}

// shownRow is a line of a file as it is stored.
type shownRow struct {
	Line             int
	Recipient, Leads string
	Channel          push.Channel
	Tags, Attributes []string
}

func newShownRow(l *words.Language, line int, e *audience.Endpoint) shownRow {
	r := shownRow{Line: line, Recipient: clip(e.Recipient, 60), Leads: clip(leadsTo(l, e), 60), Channel: e.Channel, Tags: few(l, e.Tags)}
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		r.Attributes = append(r.Attributes, clip(name+" = "+e.Attributes[name].String(), 60))
	}
	r.Attributes = few(l, r.Attributes)
	return r
}
