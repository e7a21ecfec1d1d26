package campaign

import (
	"context"
	"errors"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// A campaign may try two variants of its message: each goes to a share of the audience, and the rest waits and then gets the better one.

// Limits of a campaign with variants.
const (
	Variants       = 2 // what is compared
	MinDecideAfter = time.Second
	MaxDecideAfter = 7 * 24 * time.Hour
)

// Variant is one of the two messages. The first one's message is the campaign's own: its other fields are empty in a stored campaign.
type Variant struct {
	Share            int                `json:"share"` // percent of the audience
	Template         string             `json:"template,omitempty"`
	TemplateRevision int64              `json:"template_revision,omitempty"`
	Variables        template.Variables `json:"variables,omitempty"` // nil: the campaign's
	Content          *Content           `json:"content,omitempty"`
}

// Metric is what makes a variant the better one.
type Metric string

// Metrics, by their names in the API.
const (
	Clicks Metric = "clicks"
	Shows  Metric = "shown"
)

// Decision says which variant the rest of the audience gets. The first decision stands.
type Decision struct {
	At      time.Time `json:"at"`
	Variant string    `json:"variant"` // A or B
	Reason  string    `json:"reason"`
}

// Group is a part of an audience. The numbers are stored in deliveries: append, never renumber.
type Group uint8

// Groups.
const (
	Whole  Group = iota // the audience of a campaign without variants
	GroupA              // gets the first variant
	GroupB              // gets the second
	Rest                // waits for the decision
	Groups              // their number
)

// Name returns the name of the variant that a group gets; empty for Whole and Rest.
func (g Group) Name() string {
	switch g {
	case GroupA:
		return "A"
	case GroupB:
		return "B"
	}
	return ""
}

// groupNamed returns the group of a variant by its name.
func groupNamed(name string) (Group, bool) {
	for _, g := range []Group{GroupA, GroupB} {
		if g.Name() == name {
			return g, true
		}
	}
	return Whole, false
}

// Tries reports whether the campaign has variants.
func (s *Spec) Tries() bool { return len(s.Variants) == Variants }

// Decides reports whether a part of the audience waits for a decision.
func (s *Spec) Decides() bool { return s.Tries() && s.Variants[0].Share+s.Variants[1].Share < 100 }

// Better returns the metric that decides.
func (s *Spec) Better() Metric {
	if s.Metric == "" {
		return Clicks
	}
	return s.Metric
}

// Gets returns the name of the variant that a group gets, as far as it is decided; empty: the campaign has none, or has not decided.
func (s *Spec) Gets(g Group) string {
	if g == Rest && s.Decision != nil {
		return s.Decision.Variant
	}
	return g.Name()
}

// Of returns the definition with the message that a group gets. The rest gets the first variant until it is decided.
func (s *Spec) Of(g Group) *Spec {
	if !s.Tries() || s.Gets(g) != GroupB.Name() {
		return s
	}
	b := *s
	v := &s.Variants[1]
	b.Content, b.Template, b.TemplateRevision = *v.Content, v.Template, v.TemplateRevision
	if v.Variables != nil {
		b.Variables = v.Variables
	}
	return &b
}

// DecidesAt returns when the campaign is going to decide; zero: it does not, or it is not known yet.
func (s *Spec) DecidesAt() time.Time {
	if !s.Decides() || s.Decision != nil || s.TriedAt.IsZero() {
		return time.Time{}
	}
	return s.TriedAt.Add(time.Duration(s.DecideAfter))
}

// group returns the group of an endpoint. All endpoints of a recipient are in one, so that nobody gets both variants.
func (c *Campaign) group(t *Target) Group {
	if !c.Spec.Tries() {
		return Whole
	}
	who := t.Recipient
	if who == "" {
		who = t.EndpointID.String()
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.ID + "\n" + who)) // never fails
	switch at := evenly(h.Sum64()) * 100; {
	case at < float64(c.Spec.Variants[0].Share):
		return GroupA
	case at < float64(c.Spec.Variants[0].Share+c.Spec.Variants[1].Share):
		return GroupB
	}
	return Rest
}

// composeVariants makes the first variant's message the campaign's own, and copies the content of the second one's template.
func (s *Service) composeVariants(ctx context.Context, app string, spec *Spec) error {
	if len(spec.Variants) != Variants {
		return nil // Check says so
	}
	a, b := &spec.Variants[0], spec.Variants[1]
	if a.Content != nil || a.Template != "" || a.Variables != nil {
		if !reflect.ValueOf(spec.Content).IsZero() || spec.Template != "" {
			return notification.BadField("content", "is what the first variant says; leave it out, or the first variant's")
		}
		if a.Content != nil {
			spec.Content = *a.Content
		}
		if a.Variables != nil {
			spec.Variables = a.Variables
		}
		spec.Template, spec.TemplateRevision = a.Template, a.TemplateRevision
	}
	if err := s.composeOne(ctx, app, spec); err != nil {
		return err
	}
	if b.Content == nil && b.Template == "" {
		if b.Variables == nil {
			return notification.BadField("variants[1].content", "is missing: without a message of its own the second variant is the first")
		}
		own := spec.Content
		b.Content, b.Template, b.TemplateRevision = &own, spec.Template, spec.TemplateRevision
	}
	second := Spec{Template: b.Template, TemplateRevision: b.TemplateRevision, Variables: b.Variables}
	if second.Variables == nil {
		second.Variables = spec.Variables
	}
	if b.Content != nil {
		second.Content = *b.Content
	}
	if err := s.composeOne(ctx, app, &second); err != nil {
		return inVariant(err)
	}
	b.Content, b.Template, b.TemplateRevision = &second.Content, second.Template, second.TemplateRevision
	spec.Variants = []Variant{{Share: a.Share}, b}
	return nil
}

// inVariant makes an error about a message one about the second variant's.
func inVariant(err error) error {
	var field *notification.FieldError
	if errors.As(err, &field) {
		of := *field
		of.Field = "variants[1]." + field.Field
		return &of
	}
	return err
}

// checkVariants checks the variants and what decides between them.
func (s *Spec) checkVariants() error {
	switch {
	case len(s.Variants) == 0 && s.Metric != "":
		return notification.BadField("metric", "decides between variants; there are none")
	case len(s.Variants) == 0 && s.DecideAfter != 0:
		return notification.BadField("decide_after", "is when to decide between variants; there are none")
	case len(s.Variants) == 0:
		return nil
	case len(s.Variants) != Variants || s.Variants[1].Content == nil:
		return notification.BadField("variants", "must be two")
	}
	sum := 0
	for i := range s.Variants {
		if share := s.Variants[i].Share; share < 1 || share > 99 {
			return notification.BadField("variants["+strconv.Itoa(i)+"].share", "must be from 1 to 99 percent of the audience")
		}
		sum += s.Variants[i].Share
	}
	second := &s.Variants[1]
	if sum > 100 {
		return notification.BadField("variants[1].share", "is too much: both variants together have %d percent", sum)
	}
	if err := second.Content.Check("variants[1].content"); err != nil {
		return err
	}
	if err := second.Variables.Check("variants[1].variables"); err != nil {
		return err
	}
	if second.Content.Category != s.Content.Category {
		return notification.BadField("variants[1].content.category", "must be that of the first variant, since one limit holds for the campaign")
	}
	return s.checkDecision(sum)
}

// checkDecision checks when and by what the better variant is found.
func (s *Spec) checkDecision(sum int) error {
	after := time.Duration(s.DecideAfter)
	switch {
	case sum == 100 && s.Metric != "":
		return notification.BadField("metric", "decides what the rest gets; the variants have the whole audience")
	case sum == 100 && after != 0:
		return notification.BadField("decide_after", "is when to decide what the rest gets; the variants have the whole audience")
	case sum == 100:
		return nil
	case after == 0:
		return notification.BadField("decide_after", "is missing: say how long after both variants were sent the rest gets the better one")
	case after < MinDecideAfter || after > MaxDecideAfter:
		return notification.BadField("decide_after", "must be from 1 second to 7 days")
	case s.Metric != "" && s.Metric != Clicks && s.Metric != Shows:
		return notification.BadField("metric", "%.40q is none of clicks, shown", s.Metric)
	case !s.Tracked():
		return notification.BadField("track", "must be on: without it nobody's reaction is counted, and the better variant stays unknown")
	}
	return nil
}

// checkCounted returns an error if what decides between the variants cannot be counted over these channels. links says that links in chats
// lead over this server.
func (s *Spec) checkCounted(chs []push.Channel, links bool) error {
	if !s.Decides() || !slices.Equal(chs, []push.Channel{push.Telegram}) { // receivers over other channels may report
		return nil
	}
	if s.Counts(chs, s.Better(), links) || s.Of(GroupB).Counts(chs, s.Better(), links) {
		return nil
	}
	if s.Better() == Shows {
		return notification.BadField("metric", "shown cannot be counted in Telegram, which tells of no message that it shows")
	}
	return notification.BadField("metric", "clicks cannot be counted in Telegram without buttons that report, or links and the server's public_url")
}

// Counts reports whether at least one of the channels can report a reaction: devices report what they show and what is clicked. Telegram
// reports presses of buttons that report, and clicks on links that lead over this server, but nothing that is shown.
func (s *Spec) Counts(chs []push.Channel, what Metric, links bool) bool {
	if !s.Tracked() {
		return false
	}
	for _, ch := range chs {
		switch ch {
		case push.WebPush, push.FCM, push.APNs:
			return true
		case push.Telegram:
			if what == Clicks && s.clickable(links) {
				return true
			}
		}
	}
	return false
}

// clickable reports whether a message in Telegram has something whose clicks are counted.
func (s *Spec) clickable(links bool) bool {
	if links && s.Content.URL != "" {
		return true
	}
	for _, row := range s.Content.Telegram.Buttons {
		for _, b := range row {
			if b.Callback != "" || links {
				return true
			}
		}
	}
	return false
}
