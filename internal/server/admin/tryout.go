package admin

import (
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
)

// tried is the result of a test message.
type tried struct {
	To      string
	Problem string
	Items   []campaign.Tested
}

// testCampaign sends a campaign's message to an endpoint, or to those of a recipient, without counting it.
func (a *admin) testCampaign(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	t := tried{To: text(v.r.PostForm, "to")}
	var ids []audience.ID
	if ids, t.Problem, err = a.testTargets(v, c, t.To); err != nil {
		return err
	}
	if t.Problem == "" {
		if t.Items, err = a.Campaigns.Test(v.r.Context(), v.person.App, c.ID, ids); err != nil {
			return explain(err)
		}
		a.Log.InfoContext(v.r.Context(), "campaign tested on the web page", "app", v.person.App, "campaign", c.ID, "by", v.person.Name())
	}
	if v.r.Header.Get("HX-Request") == "" {
		return a.showDetail(v, c, t)
	}
	return a.part(v, "campaign", "tried", t)
}

// testTargets returns the endpoints for a test: one by its id, or a recipient's on the campaign's channels.
func (a *admin) testTargets(v *visit, c *campaign.View, to string) (ids []audience.ID, problem string, err error) {
	if to == "" {
		return nil, v.t("Say who is to get it: a recipient, or the id of an endpoint."), nil
	}
	if id, err := audience.ParseID(to); err == nil {
		return []audience.ID{id}, "", nil
	}
	list, err := a.Audience.Of(v.r.Context(), v.person.App, to)
	if err != nil {
		return nil, "", explain(err)
	}
	chosen := c.Campaign.Channels
	if len(chosen) == 0 {
		chosen = c.Spec.Audience.Channels
	}
	for i := range list {
		e := &list[i]
		if e.Status == audience.Active && (len(chosen) == 0 || slices.Contains(chosen, e.Channel)) && len(ids) < campaign.MaxTest {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil, v.t("%s has no active address on the campaign's channels. The recipient's page shows what there is.", clip(to, 80)), nil
	}
	return ids, "", nil
}
