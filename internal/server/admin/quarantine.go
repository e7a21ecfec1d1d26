package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// quarantineShown is how many entries a page of the quarantine has.
const quarantineShown = 50

// quarantine is the page of a source's entries that were no notification.
type quarantine struct {
	Source, Path string
	Items        []setAside
	Next         string // the page of older ones; empty: there are none
	Call         string
}

type setAside struct {
	At        time.Time
	From, Why string
	Text      string
	Binary    bool // the entry is no text
}

func (a *admin) showQuarantine(v *visit) error {
	name := v.r.PathValue("name")
	below, _ := strconv.ParseInt(text(v.r.URL.Query(), "below"), 10, 64) // what is no number begins with the newest
	list, err := a.Sources.Quarantine(v.r.Context(), v.person.App, name, max(below, 0), quarantineShown+1)
	if err != nil {
		return missingKind(err)
	}
	p := quarantine{Source: name, Path: "/ui/sources/" + url.PathEscape(name), Call: "GET /v1/sources/" + url.PathEscape(name) + "/quarantine"}
	if len(list) > quarantineShown {
		list = list[:quarantineShown]
		p.Next = p.Path + "/quarantine?below=" + strconv.FormatInt(list[quarantineShown-1].Number, 10)
	}
	for i := range list {
		e := &list[i]
		one := setAside{At: e.At, From: e.From, Why: e.Why, Binary: !utf8.Valid(e.Text)}
		if !one.Binary {
			one.Text = string(e.Text)
		}
		p.Items = append(p.Items, one)
	}
	return a.show(v, "quarantine", v.t("Quarantine"), "integrations", p)
}

// emptyQuarantine deletes a source's entries that were no notification.
func (a *admin) emptyQuarantine(v *visit, name string) error {
	if err := a.Sources.EmptyQuarantine(v.r.Context(), v.person.App, name); err != nil {
		return missingKind(err)
	}
	a.Log.InfoContext(v.r.Context(), "quarantine emptied on the web page", "app", v.person.App, "source", name, "by", v.person.Name())
	a.leadTo(v, "/ui/sources/"+url.PathEscape(name)+"/quarantine", http.StatusOK)
	return nil
}
