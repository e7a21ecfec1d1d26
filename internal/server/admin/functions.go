package admin

import (
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// functions are the templates' functions that are the same in every language; speaking has the others.
var functions = template.FuncMap{
	"asset":        asset,
	"plain":        plain,
	"isNumber":     isNumber,
	"objectURL":    objectURL,
	"float":        func(n int) float64 { return float64(n) },
	"sub":          func(a, b int) int { return a - b },
	"bare":         withoutQuery,
	"lines":        newGroups,
	"open":         open,
	"own":          func(f *form, save, list string) ownList { return ownList{f, save, list} },
	"saveat":       (*compose).saveAt,
	"segmentAt":    (*segmentPage).saveAt,
	"whereLine":    whereLine,
	"mayGrow":      func(b builder) bool { return len(b.Rows) < audience.MaxRules },
	"rowAlone":     func(r builderRow) bool { return r.Op.Alone() },
	"value":        func(f *form, name string) string { return f.Values.Get(name) },
	"next":         func(n int) int { return n + 1 },
	"problem":      func(f *form, name string) string { return f.Problems[name] },
	"variables":    variableLines,
	"troubles":     func(f *form) []trouble { return f.troubles() },
	"copyURL":      copyURL,
	"recallURL":    recallURL,
	"exportURL":    exportURL,
	"sendURL":      sendURL,
	"idText":       func(id audience.ID) string { return id.String() },
	"known":        func(t time.Time) bool { return !t.IsZero() },
	"outcome":      func(o campaign.Outcome) string { return o.String() },
	"reasons":      deliveriesURL,
	"stamp":        stamp,
	"who":          signin.Person.Name,
	"pageApp":      pageApp,
	"complete":     (*guide).complete,
	"begun":        (*guide).begun,
	"stepDone":     (*guide).isDone,
	"problemIn":    (*guide).problemIn,
	"guideEvents":  (*guide).events,
	"workerOf":     (*guide).worker,
	"tagOf":        (*guide).tag,
	"pageOf":       (*guide).page,
	"callOf":       (*guide).call,
	"nothingFound": (*finds).nothing,
	"isPlain":      sought.plain,
	"orderURL":     func(s sought, by string) string { return s.ordered(sorting(by)) },
	"reportURL":    (*lineReport).file,
	"snippet":      func(id, label, text string) snippet { return snippet{id, label, text} },
}

// ownList is one list of the form: the message's, or that of one of its languages.
type ownList struct {
	Form       *form
	Save, List string
}

// moreLines is the button that adds a line to a list of the form.
type moreLines struct{ Save, List, Label string }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// element returns a number as an element whose text the script rewrites in the form that the reader's browser prefers.
func element(n int64, text string) template.HTML {
	return template.HTML(`<data value="` + strconv.FormatInt(n, 10) + `">` + template.HTMLEscapeString(text) + `</data>`)
}
