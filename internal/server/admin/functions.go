package admin

import (
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/server/watch"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

var functions = template.FuncMap{
	"asset":        asset,
	"count":        counted,
	"decimal":      decimal,
	"plain":        plain,
	"isNumber":     isNumber,
	"why":          watch.Turned.Why,
	"objectURL":    objectURL,
	"float":        func(n int) float64 { return float64(n) },
	"sub":          func(a, b int) int { return a - b },
	"lasted":       lasted,
	"bare":         withoutQuery,
	"steps":        stepChoice,
	"choice":       newChoice,
	"line":         newLine,
	"lines":        newGroups,
	"more":         func(save, list, label string) moreLines { return moreLines{save, list, label} },
	"open":         open,
	"own":          func(f *form, save, list string) ownList { return ownList{f, save, list} },
	"saveat":       (*compose).saveAt,
	"problem":      func(f *form, name string) string { return f.Problems[name] },
	"variables":    variableLines,
	"troubles":     func(f *form) []trouble { return f.troubles() },
	"many":         func(n int) template.HTML { return counted(int64(n)) },
	"channelsOf":   channelsOf,
	"version":      versionText,
	"copyURL":      copyURL,
	"recallURL":    recallURL,
	"deed":         newBulkButton,
	"exportURL":    exportURL,
	"sendURL":      sendURL,
	"idText":       func(id audience.ID) string { return id.String() },
	"second":       func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") },
	"known":        func(t time.Time) bool { return !t.IsZero() },
	"outcome":      func(o campaign.Outcome) string { return o.String() },
	"reasons":      deliveriesURL,
	"day":          func(t time.Time) string { return t.Format("2 Jan") },
	"stamp":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"when":         when,
	"pace":         rateWords,
	"who":          signin.Person.Name,
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
	"channel":      channelWord,
	"field":        fieldWord,
	"called":       func(e audience.Endpoint) string { return nameOf(&e) },
	"device":       func(e audience.Endpoint) string { return deviceOf(&e) },
	"snippet":      func(id, label, text string) snippet { return snippet{id, label, text} },
}

// ownList is one list of the form: the message's, or that of one of its languages.
type ownList struct {
	Form       *form
	Save, List string
}

// moreLines is the button that adds a line to a list of the form.
type moreLines struct{ Save, List, Label string }

func when(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// counted returns a number as an element whose text the script rewrites in the reader's language. Digits and commas need no escaping.
func counted(n int64) template.HTML {
	return template.HTML(`<data value="` + strconv.FormatInt(n, 10) + `">` + count(n) + `</data>`)
}

// count writes a number with commas between its thousands: 1,234,567.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	head := len(s) % 3
	if n < 0 || len(s) <= 3 {
		return s
	}
	out := []byte(s[:head])
	for i := head; i < len(s); i += 3 {
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, s[i:i+3]...)
	}
	return string(out)
}
