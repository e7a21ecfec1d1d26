package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
	"godwit.dev/godwit/internal/push"
)

// Campaigns are what can be done to an app's campaigns.
type Campaigns interface {
	Create(ctx context.Context, app string, spec campaign.Spec, sendAt time.Time, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Revise(ctx context.Context, app, id string, spec campaign.Spec, sendAt time.Time) (*campaign.View, error)
	Get(ctx context.Context, app, id string) (*campaign.View, error)
	List(ctx context.Context, app string, limit int, cursor int64) ([]*campaign.View, error)
	Delete(ctx context.Context, app, id string) error
	Start(ctx context.Context, app, id string, sendAt time.Time) (*campaign.View, error)
	Pause(ctx context.Context, app, id string) (*campaign.View, error)
	Resume(ctx context.Context, app, id string) (*campaign.View, error)
	Cancel(ctx context.Context, app, id string) (*campaign.View, error)
	Recall(ctx context.Context, app, id string) (*campaign.View, error)
	RetryUnknown(ctx context.Context, app, id string) (n int64, err error)
	Test(ctx context.Context, app, id string, endpoints []audience.ID) ([]campaign.Tested, error)
	Preview(ctx context.Context, app, id string, p campaign.Person, ch push.Channel, endpoint *audience.ID) (*campaign.Preview, error)
	Report(ctx context.Context, app, id string, only *campaign.Outcome, limit int, cursor int64) ([]campaign.Delivery, error)
	Days(ctx context.Context, app, id string, from, to time.Time) ([]campaign.Day, error)
	// React and Follow take signed tokens, which say whose they are.
	React(ctx context.Context, token string, what campaign.Reaction) error
	Follow(ctx context.Context, token, link string) error
}

// maxCampaignBody holds the content in all its languages and an audience of 10,000 recipients.
const maxCampaignBody = campaign.MaxContentBytes + audience.MaxRecipients*(notification.MaxNameBytes+8) + 64<<10

type campaignJSON struct {
	ID          string               `json:"id"`
	Name        string               `json:"name"`
	State       campaign.State       `json:"state"`
	Detail      *string              `json:"detail"` // why it is paused or failed
	Title       string               `json:"title"`
	Content     *campaign.Content    `json:"content,omitempty"`  // not in lists
	Audience    *audience.Audience   `json:"audience,omitempty"` // not in lists
	Channels    []push.Channel       `json:"channels"`
	SendAt      moment               `json:"send_at"`
	CreatedAt   moment               `json:"created_at"`
	StartedAt   moment               `json:"started_at"`
	FinishedAt  moment               `json:"finished_at"`
	RateLimit   *string              `json:"rate_limit"` // as asked for
	Spread      *campaign.Duration   `json:"spread"`
	QuietHours  *campaign.QuietHours `json:"quiet_hours"`
	TTL         campaign.Duration    `json:"ttl"`
	ExpiresAt   moment               `json:"expires_at"`
	Priority    push.Urgency         `json:"priority"`
	CollapseKey *string              `json:"collapse_key"`
	UTM         *string              `json:"utm"`
	Track       bool                 `json:"track"`

	Enumerated  bool                              `json:"enumerated"` // total is final
	Total       int64                             `json:"total"`
	Counts      map[string]int64                  `json:"counts"`
	ByChannel   map[push.Channel]map[string]int64 `json:"by_channel"`
	Sending     int64                             `json:"sending"` // of the pending ones, right now
	Shown       int64                             `json:"shown"`
	Clicked     int64                             `json:"clicked"`
	Dismissed   int64                             `json:"dismissed"`
	NotRecalled int64                             `json:"not_recalled"`
	Rate        string                            `json:"rate"` // measured
	ETA         moment                            `json:"eta"`
	Duplicate   *bool                             `json:"duplicate,omitempty"`
}

// publicCounts names outcomes as the API does: what is being sent is still pending.
func publicCounts(counts map[campaign.Outcome]int64) map[string]int64 {
	m := make(map[string]int64, 7)
	for o := campaign.Pending; o <= campaign.TakenBack; o++ {
		if o == campaign.Sending {
			m[campaign.Pending.String()] += counts[o]
		} else {
			m[o.String()] += counts[o]
		}
	}
	return m
}

func viewCampaign(v *campaign.View, whole bool) campaignJSON {
	s := &v.Spec
	j := campaignJSON{
		ID: v.ID, Name: s.Name, State: v.State, Detail: orNothing(v.Detail), Title: s.Content.Title, Channels: append([]push.Channel{}, v.Campaign.Channels...),
		SendAt: moment(v.SendAt), CreatedAt: moment(v.CreatedAt), StartedAt: moment(v.StartedAt), FinishedAt: moment(v.FinishedAt),
		RateLimit: orNothing(s.Rate.String()), QuietHours: s.Quiet, TTL: campaign.Duration(s.Life()), ExpiresAt: moment(s.Expires), Priority: s.Urgency(),
		CollapseKey: orNothing(s.Collapse), UTM: orNothing(s.UTM), Track: s.Tracked(),
		Enumerated: v.Enumerated, Total: v.Total(), Counts: publicCounts(v.Counts), Sending: v.Counts[campaign.Sending],
		ByChannel: make(map[push.Channel]map[string]int64, len(v.Figures.Channels)),
		Shown:     v.Shown, Clicked: v.Clicked, Dismissed: v.Dismissed, NotRecalled: v.NotRecalled,
		Rate: strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s", ETA: moment(v.ETA),
	}
	if s.Spread > 0 {
		j.Spread = &s.Spread
	}
	for ch, counts := range v.Figures.Channels {
		j.ByChannel[ch] = publicCounts(counts)
	}
	if whole {
		j.Content, j.Audience = &s.Content, &s.Audience
	}
	if v.Duplicate {
		j.Duplicate = &v.Duplicate
	}
	return j
}

func orNothing(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// createCampaign is POST /v1/campaigns.
func (a *api) createCampaign(c *call) error {
	idem, err := idempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	spec, sendAt, body, err := a.campaignBody(c)
	if err != nil {
		return err
	}
	v, err := a.Campaigns.Create(c.ctx, c.key.App, spec, sendAt, idem, sha256.Sum256(body))
	if err != nil {
		return campaignError(err)
	}
	status := http.StatusCreated
	if v.Duplicate {
		status = http.StatusOK
	} else {
		a.Log.InfoContext(c.ctx, "campaign created", "app", c.key.App, "campaign", v.ID, "state", v.State, "by", c.key.Key)
	}
	return c.value(status, viewCampaign(v, true))
}

// reviseCampaign is PUT /v1/campaigns/{id}: of one that has not begun.
func (a *api) reviseCampaign(c *call) error {
	spec, sendAt, _, err := a.campaignBody(c)
	if err != nil {
		return err
	}
	v, err := a.Campaigns.Revise(c.ctx, c.key.App, c.r.PathValue("id"), spec, sendAt)
	if err != nil {
		return campaignError(err)
	}
	return c.value(http.StatusOK, viewCampaign(v, true))
}

func (a *api) campaignBody(c *call) (spec campaign.Spec, sendAt time.Time, body []byte, err error) {
	if _, err := c.params(); err != nil {
		return spec, sendAt, nil, err
	}
	if body, err = readBody(c.r, nil, int64(maxCampaignBody)); err != nil {
		return spec, sendAt, nil, err
	}
	var at jsonTime
	err = fields{
		"name": &spec.Name, "content": &spec.Content, "audience": &spec.Audience, "send_at": &at, "rate": &spec.Rate, "spread": &spec.Spread,
		"quiet_hours": &spec.Quiet, "ttl": &spec.TTL, "expires_at": (*jsonTime)(&spec.Expires), "priority": &spec.Priority,
		"collapse_key": &spec.Collapse, "utm": &spec.UTM, "track": &spec.Track,
	}.decodeOrNull(body)
	return spec, time.Time(at), body, err
}

// jsonTime is a time in a request.
type jsonTime time.Time

// UnmarshalJSON implements json.Unmarshaler.
func (t *jsonTime) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return errors.New("must be a time like \"2006-01-02T15:04:05Z\"")
	}
	at, err := parseTime("", text)
	*t = jsonTime(at)
	return err
}

// campaignError says what a client did wrong.
func campaignError(err error) error {
	var state *campaign.StateError
	var ch *campaign.ChannelError
	var known *problem.Problem
	switch {
	case errors.Is(err, campaign.ErrNotFound):
		return problem.NotFound.With("the app has no campaign with this id")
	case errors.Is(err, campaign.ErrReused):
		return problem.IdempotencyMismatch.New()
	case errors.Is(err, campaign.ErrBadToken):
		return problem.BadToken.New()
	case errors.As(err, &state):
		return problem.WrongState.With(state.Error())
	case errors.As(err, &ch) && !errors.As(err, &known):
		return problem.ChannelUnable.With(ch.Error()).In("audience.channels")
	}
	return err
}

// listCampaigns is GET /v1/campaigns, newest first.
func (a *api) listCampaigns(c *call) error {
	q, err := c.params("limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := page(q)
	if err != nil {
		return err
	}
	cursor, err := numericCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	views, err := a.Campaigns.List(c.ctx, c.key.App, limit, cursor)
	if err != nil {
		return err
	}
	next := ""
	if len(views) == limit {
		next = strconv.FormatInt(views[limit-1].Num, 10)
	}
	l := newList[campaignJSON](len(views), next)
	for _, v := range views {
		l.Items = append(l.Items, viewCampaign(v, false))
	}
	return c.value(http.StatusOK, l)
}

func numericCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, badField("cursor", "is not one that this list gave")
	}
	return n, nil
}

// getCampaign is GET /v1/campaigns/{id}.
func (a *api) getCampaign(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	v, err := a.Campaigns.Get(c.ctx, c.key.App, c.r.PathValue("id"))
	if err != nil {
		return campaignError(err)
	}
	return c.value(http.StatusOK, viewCampaign(v, true))
}

// deleteCampaign is DELETE /v1/campaigns/{id}.
func (a *api) deleteCampaign(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	id := c.r.PathValue("id")
	if err := a.Campaigns.Delete(c.ctx, c.key.App, id); err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.ctx, "campaign deleted", "app", c.key.App, "campaign", id, "by", c.key.Key)
	return c.noContent()
}
