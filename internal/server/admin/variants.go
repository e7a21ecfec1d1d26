package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/server/admin/words"
)

// secondFields are the parts of a second variant's message that the form has. An empty one is as in the first variant.
var secondFields = []string{"b_title", "b_body", "b_url", "b_image"}

// secondParts are the same parts of a content.
func secondParts(c *campaign.Content) []*string {
	return []*string{&c.Title, &c.Body, &c.URL, &c.Image}
}

// variantValues returns the form's values for a campaign's variants and its local time.
func variantValues(v url.Values, s *campaign.Spec) {
	if l := s.Local; l != nil {
		v.Set("local_at", l.At)
		v.Set("local_passed", l.Passed)
	}
	if !s.Tries() {
		return
	}
	v.Set("share_a", strconv.Itoa(s.Variants[0].Share))
	v.Set("share_b", strconv.Itoa(s.Variants[1].Share))
	v.Set("metric", string(s.Metric))
	v.Set("decide_after", duration(s.DecideAfter))
	b := &s.Variants[1]
	if v.Set("b_template", b.Template); b.Template != "" {
		return
	}
	first := secondParts(&s.Content)
	for i, part := range secondParts(b.Content) {
		if *part != *first[i] {
			v.Set(secondFields[i], *part)
		}
	}
}

// readVariants reads the second variant. was is the campaign's message before the form was read into it.
func (a *admin) readVariants(v *visit, f *reading, was *campaign.Spec) error {
	s := &f.spec
	s.Metric, s.DecideAfter = campaign.Metric(f.text("metric")), f.duration("decide_after", s.DecideAfter)
	shares := []int{f.share("share_a"), f.share("share_b")}
	name, own := f.text("b_template"), false
	for _, field := range secondFields {
		own = own || f.text(field) != ""
	}
	if name == "" && !own {
		s.Variants = nil
		for _, field := range []string{"share_a", "share_b", "metric", "decide_after"} {
			if f.text(field) != "" {
				f.blame("b_title", "is empty: a second variant is needed to compare. Write one, or empty what is below it")
			}
		}
		s.Metric, s.DecideAfter = "", 0
		return nil
	}
	second := campaign.Variant{Share: shares[1]}
	switch {
	case name != "" && own:
		f.blame("b_template", "has a message of its own: choose none, or empty what the second variant says below")
	case name == "":
		second.Content = f.secondContent(was)
	case was.Tries() && was.Variants[1].Template == name:
		kept := was.Variants[1]
		second.Template, second.TemplateRevision, second.Variables, second.Content = kept.Template, kept.TemplateRevision, kept.Variables, kept.Content
	default:
		t, err := a.Templates.Get(v.r.Context(), v.person.App, name)
		if errors.Is(err, template.ErrUnknown) {
			f.blame("b_template", "the app has no template %s", clip(name, 80))
			break
		}
		if err != nil {
			return err
		}
		second.Template, second.TemplateRevision, second.Content = t.Name, t.Revision, &t.Content
	}
	if second.Content == nil {
		second.Content = &campaign.Content{} // the check would blame the number of variants
		second.Content.Title = "-"
		second.Content.Category = s.Content.Category
	}
	s.Variants = []campaign.Variant{{Share: shares[0]}, second}
	return nil
}

// secondContent returns the first variant's message with what the form says of the second. Parts that the form does not show follow the
// first variant's, unless the API made them differ.
func (f *reading) secondContent(was *campaign.Spec) *campaign.Content {
	c := f.spec.Content
	if was.Tries() && was.Variants[1].Template == "" && !sameBeside(&was.Content, was.Variants[1].Content) {
		c = *was.Variants[1].Content
	}
	if len(c.Locales) > 0 && !was.Tries() {
		f.blame("b_title", "changes the message in its own language alone. Write a template with all languages, and choose that for the second variant")
	}
	first, photo := secondParts(&f.spec.Content), f.spec.Content.Image
	for i, part := range secondParts(&c) {
		*part = cmp.Or(f.text(secondFields[i]), *first[i])
	}
	if c.Telegram.Photo != "" && c.Telegram.Photo == photo {
		c.Telegram.Photo = c.Image
	}
	return &c
}

// sameBeside reports whether two messages differ at most in the parts of a second variant that the form has.
func sameBeside(a, b *campaign.Content) bool {
	says := func(c campaign.Content) string {
		if c.Telegram.Photo == c.Image {
			c.Telegram.Photo = ""
		}
		for _, part := range secondParts(&c) {
			*part = ""
		}
		j, _ := json.Marshal(c) // stored content is JSON
		return string(j)
	}
	return says(*a) == says(*b)
}

// share reads a percentage; empty: half.
func (f *reading) share(name string) int {
	s := f.text(name)
	if s == "" {
		return 50
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		f.blame(name, "%s is not a number of percent", strconv.Quote(clip(s, 40)))
	}
	return n
}

// readLocal reads the time of the day where each recipient is.
func (f *reading) readLocal() {
	f.spec.Local = nil
	l := campaign.LocalTime{At: f.text("local_at"), Fallback: f.text("fallback"), Passed: f.text("local_passed")}
	switch {
	case l.At != "":
		f.spec.Local = &l
	case l.Passed != "":
		f.blame("local_at", "is empty: say at what time of the day, or empty what is beside it")
	}
}

// variantLine is a line of the report by variant.
type variantLine struct {
	Name, Title          string
	Share                int // 0: the rest
	Total, Accepted      int64
	Shown, Clicked       int64
	ShownPart, ClickPart string // of the accepted messages; empty: there are none
	Better               bool
	Deed                 string // the action that decides for it
}

// comparison is the report by variant.
type comparison struct {
	Lines     []variantLine
	Counted   reactions
	Metric    campaign.Metric
	After     string
	DecidesAt time.Time
	Decision  *campaign.Decision
	Reason    string // of the decision
	Decides   bool
	Open      bool // somebody may decide now
}

// compared returns the report of a campaign with variants; nil: it has none.
func compared(l *words.Language, c *campaign.View) *comparison {
	s := &c.Spec
	if !s.Tries() {
		return nil
	}
	r := &comparison{Counted: reactionsOf(c), Metric: s.Better(), After: duration(s.DecideAfter), DecidesAt: s.DecidesAt(), Decision: s.Decision, Decides: s.Decides() && (s.Decision != nil || !c.Ended())}
	if r.Decision != nil {
		r.Reason = reasonIn(l, r.Decision.Reason)
	}
	r.Open = r.Decides && r.Decision == nil && (c.State == campaign.Running || c.State == campaign.Paused)
	add := func(g campaign.Group, name, title string, share int) {
		f := &c.Groups[g]
		line := variantLine{Deed: "decide-" + strings.ToLower(name), Name: name, Title: title, Share: share, Total: f.Total(), Accepted: f.Arrived(), Shown: f.Shown, Clicked: f.Clicked}
		if line.Accepted > 0 {
			part := func(n int64) string { return l.T("%s %%", l.Decimal(float64(n)*100/float64(line.Accepted))) }
			line.ShownPart, line.ClickPart = part(line.Shown), part(line.Clicked)
		}
		line.Better = share > 0 && r.Decision != nil && r.Decision.Variant == name
		r.Lines = append(r.Lines, line)
	}
	add(campaign.GroupA, "A", clip(s.Content.Title, 80), s.Variants[0].Share)
	add(campaign.GroupB, "B", clip(s.Variants[1].Content.Title, 80), s.Variants[1].Share)
	if s.Decides() {
		add(campaign.Rest, "Rest", "", 0)
	}
	return r
}

// variantWords says in a sentence who gets which variant; empty: there are none.
func variantWords(l *words.Language, s *campaign.Spec) string {
	if !s.Tries() {
		return ""
	}
	a, b := int64(s.Variants[0].Share), int64(s.Variants[1].Share)
	switch {
	case !s.Decides():
		return l.T("A to %[1]s %%, B to %[2]s %%", a, b)
	case s.Better() == campaign.Shows:
		return l.T("A to %[1]s %%, B to %[2]s %%; the rest gets the one with more views, %[3]s after both were sent", a, b, duration(s.DecideAfter))
	}
	return l.T("A to %[1]s %%, B to %[2]s %%; the rest gets the one with more clicks, %[3]s after both were sent", a, b, duration(s.DecideAfter))
}

// localWords says when a campaign with a local time is sent; empty: it has none.
func localWords(l *words.Language, s *campaign.Spec) string {
	if s.Local == nil {
		return ""
	}
	at, zone := s.Local.At, s.Fallback()
	if s.Local.Passed == campaign.AtOnce {
		return l.T("%[1]s where each recipient is, or in %[2]s for those whose zone is not known; at once where that has passed", at, zone)
	}
	return l.T("%[1]s where each recipient is, or in %[2]s for those whose zone is not known; a day later where that has passed", at, zone)
}

// secondChoice makes the field with the templates that the second variant may use: those of the first.
func (a *admin) secondChoice(f *form, first *line) (*line, error) {
	if first == nil && f.Values.Get("b_template") == "" {
		return nil, nil // there is no field
	}
	l10n := f.speaks()
	options := []string{"", l10n.T("none")}
	if first != nil {
		for _, o := range first.Options {
			if o.Value != "" {
				options = append(options, o.Value, o.Value)
			}
		}
	}
	l, err := newChoice(f, "b_template", options...)
	l.Hint = l10n.T("Or write below what B says; what is left empty is as in A.")
	return &l, err
}
