package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Segments reads and changes stored segments.
type Segments interface {
	Get(ctx context.Context, app, name string) (segment.Segment, error)
	List(ctx context.Context, app, after string, limit int) ([]segment.Segment, error)
	Set(ctx context.Context, app, name string, c segment.Change) (set segment.Segment, created bool, err error)
	Delete(ctx context.Context, app, name string, must setting.Match) error
	// Fill replaces the segment that an audience names by the segment's expression, which it returns.
	Fill(ctx context.Context, app string, a *audience.Audience, field string) (where string, err error)
}

const (
	segmentsPath = "/ui/segments"
	// segmentsShown is the number of segments on a page of the list.
	segmentsShown = 60
)

// segmentList is the page that lists an app's segments.
type segmentList struct {
	Items []segmentLine
	After string // the page begins after this name; empty: it is the first
	Next  string // path of the next page; empty: this is the last
	Gone  *gone  // nil: none was deleted just now
}

// segmentLine is a segment in the list.
type segmentLine struct {
	Name, Path         string
	Description, Where string
	Words              string // what the expression says in words; empty: it is too long or too nested for that
	UpdatedAt          time.Time
}

// segmentSays is what a deleted segment said.
type segmentSays struct{ Where, Description string }

func segmentPath(name string) string { return segmentsPath + "/" + url.PathEscape(name) }

func (a *admin) listSegments(v *visit) error { return a.segmentList(v, &segmentList{}) }

func (a *admin) segmentList(v *visit, p *segmentList) error {
	if after := text(v.r.URL.Query(), "after"); segment.CheckName("after", after) == nil {
		p.After = after
	}
	list, err := a.Segments.List(v.r.Context(), v.person.App, p.After, segmentsShown+1)
	if err != nil {
		return err
	}
	if len(list) > segmentsShown {
		list = list[:segmentsShown]
		p.Next = segmentsPath + "?" + url.Values{"after": {list[segmentsShown-1].Name}}.Encode()
	}
	for i := range list {
		s := &list[i]
		p.Items = append(p.Items, segmentLine{
			Name: s.Name, Path: segmentPath(s.Name), Description: clip(s.Description, 160), Where: clip(s.Where, 160), Words: clip(saidOf(v.lang, s.Where), 160), UpdatedAt: s.UpdatedAt,
		})
	}
	return a.show(v, "segments", v.t("Segments"), "segments", p)
}

// saidOf says an expression in words; empty: it cannot.
func saidOf(l *words.Language, where string) string {
	x, err := audience.Parse(where)
	if err != nil {
		return ""
	}
	rows, one, ok := audience.Rules(x)
	if !ok {
		return ""
	}
	parts := make([]string, len(rows))
	for i, r := range rows {
		parts[i] = strings.TrimSpace(r.Field + " " + l.T(rowWords[r.Op]) + " " + r.Value)
	}
	if one {
		return strings.Join(parts, l.T(", or "))
	}
	return strings.Join(parts, l.T(", and "))
}

// segmentOf reads a segment for a page.
func (a *admin) segmentOf(v *visit, name string) (segment.Segment, error) {
	one, err := a.Segments.Get(v.r.Context(), v.person.App, name)
	if errors.Is(err, segment.ErrUnknown) {
		return one, mistaken(http.StatusNotFound, "There is no such segment.")
	}
	return one, err
}

// deleteSegment deletes the revision that the person saw, and offers to bring it back.
func (a *admin) deleteSegment(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	ctx, app, name := v.r.Context(), v.person.App, v.r.PathValue("name")
	one, err := a.segmentOf(v, name)
	if err != nil {
		return err
	}
	err = a.Segments.Delete(ctx, app, name, setting.Exactly(v.r.PostForm.Get("revision")))
	var other *setting.ChangedError
	var used *segment.UsedError
	switch {
	case errors.As(err, &used):
		return mistaken(http.StatusConflict, "Segment %[1]s is used by campaign %[2]s, which has not begun. Change that campaign or delete it first.", used.Segment, used.Campaign)
	case errors.As(err, &other):
		return mistaken(http.StatusConflict, "Somebody else has changed this segment since you opened its page. Open it again, and delete what it says now.")
	case errors.Is(err, segment.ErrUnknown):
		return mistaken(http.StatusNotFound, "Somebody else has deleted this segment already.")
	case err != nil:
		return err
	}
	g, err := newGone(v.t("%s is deleted. Campaigns that used it have begun, and keep its expression.", name), segmentPath(name), segmentSays{one.Where, one.Description})
	if err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "segment deleted on the web page", "app", app, "segment", name, "by", v.person.Name())
	return a.segmentList(v, &segmentList{Gone: g})
}

// restoreSegment stores a deleted segment again, unless its name is taken.
func (a *admin) restoreSegment(v *visit) error {
	var was segmentSays
	if err := bringBack(v, &was); err != nil {
		return err
	}
	one, _, err := a.Segments.Set(v.r.Context(), v.person.App, v.r.PathValue("name"), segment.Change{Where: was.Where, Description: was.Description, Must: setting.Exactly("")})
	var other *setting.ChangedError
	if errors.As(err, &other) {
		now, err := a.Segments.Get(v.r.Context(), v.person.App, v.r.PathValue("name"))
		if err == nil && now.Where == was.Where && now.Description == was.Description {
			a.leadTo(v, segmentPath(now.Name), http.StatusOK) // the button was pressed twice
			return nil
		}
		return mistaken(http.StatusConflict, "Somebody has made a segment of this name meanwhile. It stays.")
	}
	if err != nil {
		return explain(err)
	}
	a.segmentSaved(v, &one)
	return nil
}

// segmentChoice returns the field that selects a segment; nil if the app has none.
func (a *admin) segmentChoice(ctx context.Context, app string, f *form) (*line, error) {
	list, err := a.Segments.List(ctx, app, "", segment.MaxSegments)
	if err != nil || len(list) == 0 && f.Values.Get("segment") == "" {
		return nil, err
	}
	options := []string{"", f.speaks().T("everybody")}
	for i := range list {
		options = append(options, list[i].Name, list[i].Name)
	}
	l, err := newChoice(f, "segment", options...)
	l.Hint = f.speaks().T("Its expression is read when the campaign begins to send. What stands below narrows it.")
	return &l, err
}

// segmentNames lists the names of an app's segments, and the chosen one even if it is gone.
func (a *admin) segmentNames(v *visit, chosen string) (names []string, err error) {
	list, err := a.Segments.List(v.r.Context(), v.person.App, "", segment.MaxSegments)
	for i := range list {
		names = append(names, list[i].Name)
	}
	if chosen != "" && !slices.Contains(names, chosen) {
		names = append(names, chosen)
	}
	return names, err
}

// findSegments searches the names and descriptions of segments.
func (a *admin) findSegments(v *visit, f *finds) error {
	list, err := a.Segments.List(v.r.Context(), v.person.App, "", segment.MaxSegments)
	if err != nil {
		return err
	}
	for i := range list {
		if s := &list[i]; len(f.Segments) < mostFound && (contains(s.Name, f.Query) || contains(s.Description, f.Query)) {
			f.Segments = append(f.Segments, lead{Path: segmentPath(s.Name), Label: s.Name})
		}
	}
	return nil
}
