package admin

import (
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

// A correction uses the form of a campaign, of which only the message is shown.

// correctable reports whether a campaign has sent messages that can be corrected.
func correctable(c *campaign.View) bool {
	switch c.State {
	case campaign.Completed, campaign.Cancelled, campaign.Failed:
		return slices.Contains(c.Campaign.Channels, push.Telegram) && c.Counts[campaign.Accepted]+c.Counts[campaign.Unknown] > 0
	}
	return false
}

// saysNow returns a campaign's message as it reads in Telegram now: the last correction, or else the message as sent.
func saysNow(s *campaign.Spec) campaign.Spec {
	now := campaign.Spec{Template: s.Template, TemplateRevision: s.TemplateRevision, Variables: s.Variables, Content: s.Content}
	if k := s.Correction; k != nil {
		now.Template, now.TemplateRevision, now.Variables, now.Content = k.Template, k.TemplateRevision, k.Variables, k.Content
	}
	now.Audience.Channels = []push.Channel{push.Telegram}
	return now
}

func (a *admin) composeCorrection(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	now := saysNow(&c.Spec)
	return a.form(v, http.StatusOK, &compose{Form: &form{Values: messageValues(&now), Kept: kept(v.lang, &now), lang: v.lang}, ID: c.ID, Was: named(c), Correct: true})
}

func (a *admin) correctCampaign(v *visit) error {
	was, err := a.campaign(v)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	v.r.PostForm.Set("correct", "on")
	return a.save(v, was)
}

// correct replaces the content of a campaign's sent messages with the posted content.
func (a *admin) correct(v *visit, f *reading, was *campaign.View) (*campaign.View, error) {
	ctx, app, s := v.r.Context(), v.person.App, &f.spec
	k := campaign.Correction{Template: s.Template, TemplateRevision: s.TemplateRevision, Variables: s.Variables, Content: s.Content}
	if k.Variables == nil {
		k.Variables = template.Variables{} // no variables at all, instead of those that the campaign was sent with
	}
	c, err := a.Campaigns.Correct(ctx, app, was.ID, k)
	if err == nil {
		a.Log.InfoContext(ctx, "campaign corrected on the web page", "app", app, "campaign", c.ID, "by", v.person.Name())
	}
	return c, err
}
