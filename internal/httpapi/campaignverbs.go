package httpapi

import (
	"context"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
)

// maxVerbBody holds what the verbs take: a time, some ids, some attributes.
const maxVerbBody = 64 << 10

// verbBody reads the object that a verb takes; none at all is as good as an empty one.
func verbBody(c *call, members fields) error {
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxVerbBody)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	return members.decodeOrNull(body)
}

// startCampaign is POST /v1/campaigns/{id}/start.
func (a *api) startCampaign(c *call) error {
	var at jsonTime
	if err := verbBody(c, fields{"send_at": &at}); err != nil {
		return err
	}
	return a.moved(c, "started", func(ctx context.Context, app, id string) (*campaign.View, error) {
		return a.Campaigns.Start(ctx, app, id, time.Time(at))
	})
}

// pauseCampaign is POST /v1/campaigns/{id}/pause.
func (a *api) pauseCampaign(c *call) error { return a.verb(c, "paused", a.Campaigns.Pause) }

// resumeCampaign is POST /v1/campaigns/{id}/resume.
func (a *api) resumeCampaign(c *call) error { return a.verb(c, "resumed", a.Campaigns.Resume) }

// cancelCampaign is POST /v1/campaigns/{id}/cancel.
func (a *api) cancelCampaign(c *call) error { return a.verb(c, "cancelled", a.Campaigns.Cancel) }

// recallCampaign is POST /v1/campaigns/{id}/recall.
func (a *api) recallCampaign(c *call) error { return a.verb(c, "recalled", a.Campaigns.Recall) }

func (a *api) verb(c *call, done string, do func(ctx context.Context, app, id string) (*campaign.View, error)) error {
	if err := verbBody(c, nil); err != nil {
		return err
	}
	return a.moved(c, done, do)
}

// moved does something to a campaign and answers with what it is then.
func (a *api) moved(c *call, done string, do func(ctx context.Context, app, id string) (*campaign.View, error)) error {
	id := c.r.PathValue("id")
	v, err := do(c.ctx, c.key.App, id)
	if err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.ctx, "campaign changed", "app", c.key.App, "campaign", id, "change", done, "state", v.State, "by", c.key.Key)
	return c.value(http.StatusOK, viewCampaign(v, true))
}

// retryUnknown is POST /v1/campaigns/{id}/retry-unknown.
func (a *api) retryUnknown(c *call) error {
	if err := verbBody(c, nil); err != nil {
		return err
	}
	id := c.r.PathValue("id")
	n, err := a.Campaigns.RetryUnknown(c.ctx, c.key.App, id)
	if err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.ctx, "campaign changed", "app", c.key.App, "campaign", id, "change", "unknown ones sent again", "count", n, "by", c.key.Key)
	return c.value(http.StatusOK, map[string]int64{"retried": n})
}

type testedJSON struct {
	Endpoint string       `json:"endpoint"`
	Channel  push.Channel `json:"channel,omitempty"`
	Outcome  string       `json:"outcome"`
	Detail   *string      `json:"detail"`
}

// testCampaign is POST /v1/campaigns/{id}/test.
func (a *api) testCampaign(c *call) error {
	var names []string
	if err := verbBody(c, fields{"endpoints": &names}); err != nil {
		return err
	}
	ids := make([]audience.ID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = audience.ParseID(name); err != nil {
			return badField("endpoints", "%q is not the id of an endpoint", clip(name))
		}
	}
	tested, err := a.Campaigns.Test(c.ctx, c.key.App, c.r.PathValue("id"), ids)
	if err != nil {
		return campaignError(err)
	}
	results := make([]testedJSON, len(tested))
	for i, t := range tested {
		results[i] = testedJSON{Endpoint: t.Endpoint, Channel: t.Channel, Outcome: t.Outcome.String(), Detail: orNothing(t.Detail)}
	}
	return c.value(http.StatusOK, map[string]any{"results": results})
}

// previewCampaign is POST /v1/campaigns/{id}/preview.
func (a *api) previewCampaign(c *call) error {
	var p campaign.Person
	var ch push.Channel
	var name string
	err := verbBody(c, fields{"endpoint": &name, "recipient": &p.Recipient, "locale": &p.Locale, "attributes": &p.Attributes, "channel": &ch})
	if err != nil {
		return err
	}
	var id *audience.ID
	if name != "" {
		one, err := audience.ParseID(name)
		if err != nil {
			return badField("endpoint", "%q is not the id of an endpoint", clip(name))
		}
		id = &one
	}
	pre, err := a.Campaigns.Preview(c.ctx, c.key.App, c.r.PathValue("id"), p, ch, id)
	if err != nil {
		return campaignError(err)
	}
	total := int64(0)
	for _, n := range pre.Audience {
		total += n
	}
	return c.value(http.StatusOK, map[string]any{"content": pre.Content, "audience": map[string]any{"total": total, "by_channel": pre.Audience}})
}
