package backend

import (
	"context"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// maxVerbBody is enough bytes for the verbs' bodies: a time, some ids, some attributes.
const maxVerbBody = 64 << 10

// verbBody reads a verb's body, a JSON object; no body means an empty object.
func verbBody(c *call.Call, members call.Fields) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxVerbBody)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	return members.DecodeOrNull(body)
}

// StartCampaign is POST /v1/campaigns/{id}/start.
func (a *API) StartCampaign(c *call.Call) error {
	var at jsonTime
	if err := verbBody(c, call.Fields{"send_at": &at}); err != nil {
		return err
	}
	return a.moved(c, "started", func(ctx context.Context, app, id string) (*campaign.View, error) {
		return a.Campaigns.Start(ctx, app, id, time.Time(at))
	})
}

// PauseCampaign is POST /v1/campaigns/{id}/pause.
func (a *API) PauseCampaign(c *call.Call) error { return a.verb(c, "paused", a.Campaigns.Pause) }

// ResumeCampaign is POST /v1/campaigns/{id}/resume.
func (a *API) ResumeCampaign(c *call.Call) error { return a.verb(c, "resumed", a.Campaigns.Resume) }

// CancelCampaign is POST /v1/campaigns/{id}/cancel.
func (a *API) CancelCampaign(c *call.Call) error { return a.verb(c, "cancelled", a.Campaigns.Cancel) }

// RecallCampaign is POST /v1/campaigns/{id}/recall.
func (a *API) RecallCampaign(c *call.Call) error { return a.verb(c, "recalled", a.Campaigns.Recall) }

// maxCorrectionBody is enough bytes for the content in all its languages.
const maxCorrectionBody = campaign.MaxContentBytes + 64<<10

// CorrectCampaign is POST /v1/campaigns/{id}/correct.
func (a *API) CorrectCampaign(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, int64(maxCorrectionBody))
	if err != nil {
		return err
	}
	var k campaign.Correction
	if err := (call.Fields{"template": &k.Template, "variables": &k.Variables, "content": &k.Content}).DecodeOrNull(body); err != nil {
		return err
	}
	return a.moved(c, "corrected", func(ctx context.Context, app, id string) (*campaign.View, error) {
		return a.Campaigns.Correct(ctx, app, id, k)
	})
}

func (a *API) verb(c *call.Call, done string, do func(ctx context.Context, app, id string) (*campaign.View, error)) error {
	if err := verbBody(c, nil); err != nil {
		return err
	}
	return a.moved(c, done, do)
}

// moved changes a campaign's state and answers with the changed campaign.
func (a *API) moved(c *call.Call, done string, do func(ctx context.Context, app, id string) (*campaign.View, error)) error {
	id := c.R.PathValue("id")
	v, err := do(c.Ctx, c.Key.App, id)
	if err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.Ctx, "campaign changed", "app", c.Key.App, "campaign", id, "change", done, "state", v.State, "by", c.Key.Key)
	return c.Value(http.StatusOK, viewCampaign(v, true))
}

// RetryUnknown is POST /v1/campaigns/{id}/retry-unknown.
func (a *API) RetryUnknown(c *call.Call) error {
	if err := verbBody(c, nil); err != nil {
		return err
	}
	id := c.R.PathValue("id")
	n, err := a.Campaigns.RetryUnknown(c.Ctx, c.Key.App, id)
	if err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.Ctx, "campaign changed", "app", c.Key.App, "campaign", id, "change", "unknown ones sent again", "count", n, "by", c.Key.Key)
	return c.Value(http.StatusOK, map[string]int64{"retried": n})
}

type testedJSON struct {
	Endpoint string       `json:"endpoint"`
	Channel  push.Channel `json:"channel,omitempty"`
	Variant  string       `json:"variant,omitempty"`
	Outcome  string       `json:"outcome"`
	Detail   *string      `json:"detail"`
}

// TestCampaign is POST /v1/campaigns/{id}/test.
func (a *API) TestCampaign(c *call.Call) error {
	var names []string
	if err := verbBody(c, call.Fields{"endpoints": &names}); err != nil {
		return err
	}
	ids := make([]audience.ID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = audience.ParseID(name); err != nil {
			return notification.BadField("endpoints", "%q is not the id of an endpoint", notification.Clip(name))
		}
	}
	tested, err := a.Campaigns.Test(c.Ctx, c.Key.App, c.R.PathValue("id"), ids)
	if err != nil {
		return campaignError(err)
	}
	results := make([]testedJSON, len(tested))
	for i, t := range tested {
		results[i] = testedJSON{Endpoint: t.Endpoint, Channel: t.Channel, Variant: t.Variant, Outcome: t.Outcome.String(), Detail: call.OrNull(t.Detail)}
	}
	return c.Value(http.StatusOK, map[string]any{"results": results})
}

// PreviewCampaign is POST /v1/campaigns/{id}/preview.
func (a *API) PreviewCampaign(c *call.Call) error {
	var p campaign.Person
	var ch push.Channel
	var name string
	err := verbBody(c, call.Fields{"endpoint": &name, "recipient": &p.Recipient, "locale": &p.Locale, "attributes": &p.Attributes, "channel": &ch})
	if err != nil {
		return err
	}
	var id *audience.ID
	if name != "" {
		one, err := audience.ParseID(name)
		if err != nil {
			return notification.BadField("endpoint", "%q is not the id of an endpoint", notification.Clip(name))
		}
		id = &one
	}
	pre, err := a.Campaigns.Preview(c.Ctx, c.Key.App, c.R.PathValue("id"), p, ch, id)
	if err != nil {
		return campaignError(err)
	}
	total := int64(0)
	for _, n := range pre.Audience {
		total += n
	}
	answer := map[string]any{"content": pre.Content, "audience": map[string]any{"total": total, "by_channel": pre.Audience}}
	if pre.Second != nil {
		answer["second"] = pre.Second
	}
	return c.Value(http.StatusOK, answer)
}
