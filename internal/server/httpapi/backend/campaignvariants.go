package backend

import (
	"context"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// variantBody is a variant as requests have it: the server adds a template's revision.
type variantBody struct {
	Share     int                `json:"share"`
	Template  string             `json:"template"`
	Variables template.Variables `json:"variables"`
	Content   *campaign.Content  `json:"content"`
}

func readVariants(list []variantBody) (variants []campaign.Variant) {
	for _, v := range list {
		variants = append(variants, campaign.Variant{Share: v.Share, Template: v.Template, Variables: v.Variables, Content: v.Content})
	}
	return variants
}

// variantJSON is a variant with the figures of those who got it before the decision.
type variantJSON struct {
	Name      string             `json:"name"`
	Share     int                `json:"share"`
	Title     string             `json:"title"`
	Template  *templateOf        `json:"template"`
	Variables template.Variables `json:"variables,omitempty"` // not in lists
	Content   *campaign.Content  `json:"content,omitempty"`   // not in lists
	audienceJSON
}

// audienceJSON are the figures of a part of the audience.
type audienceJSON struct {
	Total     int64            `json:"total"`
	Counts    map[string]int64 `json:"counts"`
	Shown     int64            `json:"shown"`
	Clicked   int64            `json:"clicked"`
	Dismissed int64            `json:"dismissed"`
}

// decisionJSON says which variant the rest of the audience gets.
type decisionJSON struct {
	At      call.Moment `json:"at"`
	Variant string      `json:"variant"`
	Reason  string      `json:"reason"`
}

func viewGroup(g *campaign.GroupFigures) audienceJSON {
	return audienceJSON{Total: g.Total(), Counts: publicCounts(g.Counts), Shown: g.Shown, Clicked: g.Clicked, Dismissed: g.Dismissed}
}

// variants adds what a campaign with variants has besides.
func (j *campaignJSON) variants(v *campaign.View, whole bool) {
	if !v.Spec.Tries() {
		return
	}
	for i, g := range []campaign.Group{campaign.GroupA, campaign.GroupB} {
		s := v.Spec.Of(g)
		one := variantJSON{Name: g.Name(), Share: v.Spec.Variants[i].Share, Title: s.Content.Title, audienceJSON: viewGroup(&v.Groups[g])}
		if s.Template != "" {
			one.Template = &templateOf{s.Template, s.TemplateRevision}
		}
		if whole {
			one.Variables, one.Content = s.Variables, &s.Content
		}
		j.Variants = append(j.Variants, one)
	}
	if !v.Spec.Decides() {
		return
	}
	rest, metric, after, at := viewGroup(&v.Groups[campaign.Rest]), v.Spec.Better(), v.Spec.DecideAfter, call.Moment(v.Spec.DecidesAt())
	j.Rest, j.Metric, j.DecideAfter, j.DecidesAt = &rest, &metric, &after, &at
	if d := v.Spec.Decision; d != nil {
		j.Decision = &decisionJSON{call.Moment(d.At), d.Variant, d.Reason}
	}
}

// DecideCampaign is POST /v1/campaigns/{id}/decide.
func (a *API) DecideCampaign(c *call.Call) error {
	var variant string
	if err := verbBody(c, call.Fields{"variant": &variant}); err != nil {
		return err
	}
	return a.moved(c, "decided", func(ctx context.Context, app, id string) (*campaign.View, error) {
		return a.Campaigns.Decide(ctx, app, id, variant)
	})
}
