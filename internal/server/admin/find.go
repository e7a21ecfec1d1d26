package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// finds is the page that searches everything a person may see.
type finds struct {
	Query      string
	Missing    bool // it stands in the place of a page that does not exist
	Pages      []lead
	Recipients []string
	Note       string // a notification's id; empty: none has it
	Campaigns  []lead
	Templates  []lead
	Segments   []lead
	Docs       string
	Looked     int // campaigns that were looked through, if there are more
}

// nothing reports whether nothing was found.
func (f *finds) nothing() bool {
	return f.Query != "" && len(f.Pages)+len(f.Recipients)+len(f.Campaigns)+len(f.Templates)+len(f.Segments) == 0 && f.Note == ""
}

// Limits of a search.
const (
	mostFound     = 8   // of each kind
	mostCampaigns = 300 // are looked through
)

func (a *admin) findAnything(v *visit) error {
	f, err := a.finds(v, clip(text(v.r.URL.Query(), "q"), 200))
	if err != nil {
		return err
	}
	return a.show(v, "find", v.t("Search"), "", f)
}

// showNothing answers requests for pages that do not exist.
func (a *admin) showNothing(v *visit) error {
	if v.r.Header.Get("HX-Request") != "" {
		return mistaken(http.StatusNotFound, "There is no such page.")
	}
	a.answer(v, http.StatusNotFound, "find", "page", frame{Title: v.t("No such page"), Person: v.person, Version: a.Version, Content: &finds{Missing: true}})
	return nil
}

// finds searches for a text.
func (a *admin) finds(v *visit, query string) (*finds, error) {
	f := &finds{Query: query}
	if query == "" {
		return f, nil
	}
	ctx, app := v.r.Context(), v.person.App
	f.Docs = "/docs/search?" + url.Values{"q": {query}}.Encode()
	for _, g := range a.pages.places {
		for _, p := range g.places {
			if v.person.Role.May(p.role) && (contains(p.Label, query) || contains(v.t(p.Label), query)) {
				f.Pages = append(f.Pages, lead{Path: p.Path, Label: v.t(p.Label)})
			}
		}
	}
	if notification.CheckPart("name", query) == nil {
		list, _, err := a.Recipients.List(ctx, app, query, mostFound, "")
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			f.Recipients = append(f.Recipients, r.Name)
		}
		records, err := a.Mailbox.Copies(ctx, app, query, 1)
		if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
			return nil, err
		}
		if len(records) > 0 {
			f.Note = query
		}
	}
	if err := a.findTemplates(v, f); err != nil {
		return nil, err
	}
	if err := a.findSegments(v, f); err != nil {
		return nil, err
	}
	return f, a.findCampaigns(v, f)
}

// findCampaigns looks through the newest campaigns.
func (a *admin) findCampaigns(v *visit, f *finds) error {
	list, err := a.Campaigns.List(v.r.Context(), v.person.App, mostCampaigns, 0)
	if err != nil {
		return err
	}
	for _, c := range list {
		if len(f.Campaigns) < mostFound && (contains(named(c), f.Query) || c.ID == f.Query) {
			f.Campaigns = append(f.Campaigns, lead{Path: "/ui/campaigns/" + c.ID, Label: named(c)})
		}
	}
	if len(list) == mostCampaigns {
		f.Looked = mostCampaigns
	}
	return nil
}

// folded returns a text for comparisons that ignore the case of letters.
func folded(s string) string { return strings.ToLower(s) }

// contains reports whether a text contains another one, whatever the case of their letters.
func contains(s, part string) bool { return strings.Contains(folded(s), folded(part)) }

// showDesign shows the parts of the design system.
func (a *admin) showDesign(v *visit) error {
	return a.show(v, "design", v.t("Design"), "", sample)
}

// sample is the content of the page of the design system.
var sample = &guide{
	goal: &goals[0], App: "news", Server: "https://push.example.org",
	Steps: []guideStep{{Name: "done", Title: "A step that is done", Done: true, Number: 1}, {Name: "current", Title: "The present step", Current: true, Number: 2}, {Name: "later", Title: "A later step", Number: 3}},
	Done:  1,
}
