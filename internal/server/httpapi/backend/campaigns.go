package backend

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// maxCampaignBody is enough bytes for a campaign's content in all its languages and an audience of 10,000 recipients.
const maxCampaignBody = campaign.MaxContentBytes + audience.MaxRecipients*(notification.MaxNameBytes+8) + 64<<10

type campaignJSON struct {
	ID          string               `json:"id"`
	Name        string               `json:"name"`
	Revision    string               `json:"revision"` // of its definition, which is the ETag
	State       campaign.State       `json:"state"`
	Detail      *string              `json:"detail"` // reason why it is paused or failed
	Title       string               `json:"title"`
	Template    *templateOf          `json:"template"`            // whose content it has
	Variables   template.Variables   `json:"variables,omitempty"` // not in lists
	Content     *campaign.Content    `json:"content,omitempty"`   // not in lists
	Audience    *audience.Audience   `json:"audience,omitempty"`  // not in lists
	Segment     *segmentOf           `json:"segment"`             // that the audience is within
	Channels    []push.Channel       `json:"channels"`
	SendAt      call.Moment          `json:"send_at"`
	LocalTime   *campaign.LocalTime  `json:"local_time,omitempty"`
	CreatedAt   call.Moment          `json:"created_at"`
	StartedAt   call.Moment          `json:"started_at"`
	FinishedAt  call.Moment          `json:"finished_at"`
	RateLimit   *string              `json:"rate_limit"` // as asked for
	Spread      *campaign.Duration   `json:"spread"`
	QuietHours  *campaign.QuietHours `json:"quiet_hours"`
	TTL         campaign.Duration    `json:"ttl"`
	ExpiresAt   call.Moment          `json:"expires_at"`
	Priority    push.Urgency         `json:"priority"`
	CollapseKey *string              `json:"collapse_key"`
	UTM         *string              `json:"utm"`
	Track       bool                 `json:"track"`

	Enumerated  bool                              `json:"enumerated"` // total is final
	Total       int64                             `json:"total"`
	Counts      map[string]int64                  `json:"counts"`
	ByChannel   map[push.Channel]map[string]int64 `json:"by_channel"`
	Sending     int64                             `json:"sending"` // number of the pending deliveries that are being sent right now
	Shown       int64                             `json:"shown"`
	Clicked     int64                             `json:"clicked"`
	Dismissed   int64                             `json:"dismissed"`
	NotRecalled int64                             `json:"not_recalled"`
	Variants    []variantJSON                     `json:"variants,omitempty"`
	Rest        *audienceJSON                     `json:"rest,omitempty"` // those who get the better variant
	Metric      *campaign.Metric                  `json:"metric,omitempty"`
	DecideAfter *campaign.Duration                `json:"decide_after,omitempty"`
	DecidesAt   *call.Moment                      `json:"decides_at,omitempty"`
	Decision    *decisionJSON                     `json:"decision,omitempty"`
	Correction  *correctionJSON                   `json:"correction"` // the last one
	Rate        string                            `json:"rate"`       // measured
	ETA         call.Moment                       `json:"eta"`
	Duplicate   *bool                             `json:"duplicate,omitempty"`
}

// templateOf names the template that a campaign was made from, and its revision.
type templateOf struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
}

// segmentOf names the segment of a campaign's audience. Where is its expression: the one with which the campaign began, or before that, when
// it was made or changed.
type segmentOf struct {
	Name  string `json:"name"`
	Where string `json:"where"`
}

// correctionJSON is the corrected content of a campaign's messages, and the progress of the correction.
type correctionJSON struct {
	At           call.Moment        `json:"at"`
	Messages     int64              `json:"messages"` // that it goes over
	Corrected    int64              `json:"corrected"`
	NotCorrected int64              `json:"not_corrected"`
	Kept         int64              `json:"kept"` // number of messages on channels that cannot correct them
	Title        string             `json:"title"`
	Template     *templateOf        `json:"template"`
	Variables    template.Variables `json:"variables,omitempty"` // not in lists
	Content      *campaign.Content  `json:"content,omitempty"`   // not in lists
}

func viewCorrection(v *campaign.View, whole bool) *correctionJSON {
	k := v.Spec.Correction
	if k == nil {
		return nil
	}
	j := &correctionJSON{
		At: call.Moment(k.At), Messages: k.Messages, Corrected: v.Corrected, NotCorrected: v.NotCorrected, Kept: k.Kept, Title: k.Content.Title,
	}
	if k.Template != "" {
		j.Template = &templateOf{k.Template, k.TemplateRevision}
	}
	if whole {
		j.Variables, j.Content = k.Variables, &k.Content
	}
	return j
}

// publicCounts returns counts by the API's names of outcomes: a delivery that is being sent is still pending.
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
		ID: v.ID, Name: s.Name, Revision: v.Revision(), State: v.State, Detail: call.OrNull(v.Detail), Title: s.Content.Title, Channels: append([]push.Channel{}, v.Campaign.Channels...),
		SendAt: call.Moment(v.SendAt), LocalTime: s.Local, CreatedAt: call.Moment(v.CreatedAt), StartedAt: call.Moment(v.StartedAt), FinishedAt: call.Moment(v.FinishedAt),
		RateLimit: call.OrNull(s.Rate.String()), QuietHours: s.Quiet, TTL: campaign.Duration(s.Life()), ExpiresAt: call.Moment(s.Expires), Priority: s.Urgency(),
		CollapseKey: call.OrNull(s.Collapse), UTM: call.OrNull(s.UTM), Track: s.Tracked(),
		Enumerated: v.Enumerated, Total: v.Total(), Counts: publicCounts(v.Counts), Sending: v.Counts[campaign.Sending],
		ByChannel: make(map[push.Channel]map[string]int64, len(v.Figures.Channels)),
		Shown:     v.Shown, Clicked: v.Clicked, Dismissed: v.Dismissed, NotRecalled: v.NotRecalled, Correction: viewCorrection(v, whole),
		Rate: strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s", ETA: call.Moment(v.ETA),
	}
	if s.Template != "" {
		j.Template = &templateOf{s.Template, s.TemplateRevision}
	}
	if s.Segment != nil {
		j.Segment = &segmentOf{s.Segment.Name, s.Segment.Where}
	}
	if s.Spread > 0 {
		j.Spread = &s.Spread
	}
	for ch, counts := range v.Figures.Channels {
		j.ByChannel[ch] = publicCounts(counts)
	}
	if whole {
		asked := s.Asked()
		j.Content, j.Audience, j.Variables = &s.Content, &asked, s.Variables
	}
	j.variants(v, whole)
	if v.Duplicate {
		j.Duplicate = &v.Duplicate
	}
	return j
}

// CreateCampaign is POST /v1/campaigns.
func (a *API) CreateCampaign(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	spec, sendAt, body, err := a.campaignBody(c)
	if err != nil {
		return err
	}
	v, err := a.Campaigns.Create(c.Ctx, c.Key.App, spec, sendAt, idem, sha256.Sum256(body))
	if err != nil {
		return campaignError(err)
	}
	status := http.StatusCreated
	if v.Duplicate {
		status = http.StatusOK
	} else {
		a.Log.InfoContext(c.Ctx, "campaign created", "app", c.Key.App, "campaign", v.ID, "state", v.State, "by", c.Key.Key)
	}
	c.Made = v.ID
	return showCampaign(c, status, v)
}

// CloneCampaign is POST /v1/campaigns/{id}/clone.
func (a *API) CloneCampaign(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	var name string
	if err := verbBody(c, call.Fields{"name": &name}); err != nil {
		return err
	}
	id := c.R.PathValue("id")
	v, err := a.Campaigns.Clone(c.Ctx, c.Key.App, id, name, idem, sha256.Sum256([]byte("clone "+id+"\n"+name)))
	if err != nil {
		return campaignError(err)
	}
	status := http.StatusCreated
	if v.Duplicate {
		status = http.StatusOK
	} else {
		a.Log.InfoContext(c.Ctx, "campaign cloned", "app", c.Key.App, "campaign", v.ID, "of", id, "by", c.Key.Key)
	}
	c.Made = v.ID
	return showCampaign(c, status, v)
}

// showCampaign answers with a whole campaign.
func showCampaign(c *call.Call, status int, v *campaign.View) error {
	c.W.Header().Set("ETag", strconv.Quote(v.Revision()))
	return c.Value(status, viewCampaign(v, true))
}

// ReviseCampaign is PUT /v1/campaigns/{id}: it changes a campaign that has not begun.
func (a *API) ReviseCampaign(c *call.Call) error {
	must, err := c.Match()
	if err != nil {
		return err
	}
	spec, sendAt, _, err := a.campaignBody(c)
	if err != nil {
		return err
	}
	v, err := a.Campaigns.Revise(c.Ctx, c.Key.App, c.R.PathValue("id"), spec, sendAt, must)
	if err != nil {
		return campaignError(err)
	}
	return showCampaign(c, http.StatusOK, v)
}

func (a *API) campaignBody(c *call.Call) (spec campaign.Spec, sendAt time.Time, body []byte, err error) {
	if _, err := c.Params(); err != nil {
		return spec, sendAt, nil, err
	}
	if body, err = call.ReadBody(c.R, nil, int64(maxCampaignBody)); err != nil {
		return spec, sendAt, nil, err
	}
	var at jsonTime
	var variants []variantBody
	err = call.Fields{
		"variants": &variants, "metric": &spec.Metric, "decide_after": &spec.DecideAfter, "local_time": &spec.Local, "name": &spec.Name, "template": &spec.Template, "variables": &spec.Variables, "content": &spec.Content, "audience": &spec.Audience, "send_at": &at, "rate": &spec.Rate, "spread": &spec.Spread,
		"quiet_hours": &spec.Quiet, "ttl": &spec.TTL, "expires_at": (*jsonTime)(&spec.Expires), "priority": &spec.Priority,
		"collapse_key": &spec.Collapse, "utm": &spec.UTM, "track": &spec.Track,
	}.DecodeOrNull(body)
	spec.Variants = readVariants(variants)
	return spec, time.Time(at), body, err
}

// jsonTime is a time in a request's JSON.
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

// campaignError converts a client's error to a problem.
func campaignError(err error) error {
	var state *campaign.StateError
	var ch *campaign.ChannelError
	var known *problem.Problem
	switch {
	case errors.As(err, &state):
		return problem.WrongState.With(state.Error())
	case errors.As(err, &ch) && !errors.As(err, &known):
		return problem.ChannelUnable.With(ch.Error()).In("audience.channels")
	}
	return err
}

// ListCampaigns is GET /v1/campaigns, newest first.
func (a *API) ListCampaigns(c *call.Call) error {
	q, limit, err := c.ListParams()
	if err != nil {
		return err
	}
	cursor, err := numericCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	views, err := a.Campaigns.List(c.Ctx, c.Key.App, limit, cursor)
	if err != nil {
		return err
	}
	next := ""
	if len(views) == limit {
		next = strconv.FormatInt(views[limit-1].Num, 10)
	}
	l := call.NewList[campaignJSON](len(views), next)
	for _, v := range views {
		l.Items = append(l.Items, viewCampaign(v, false))
	}
	return c.Value(http.StatusOK, l)
}

func numericCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, notification.BadField("cursor", "is not one that this list gave")
	}
	return n, nil
}

// GetCampaign is GET /v1/campaigns/{id}.
func (a *API) GetCampaign(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	v, err := a.Campaigns.Get(c.Ctx, c.Key.App, c.R.PathValue("id"))
	if err != nil {
		return campaignError(err)
	}
	return showCampaign(c, http.StatusOK, v)
}

// DeleteCampaign is DELETE /v1/campaigns/{id}.
func (a *API) DeleteCampaign(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	must, err := c.Match()
	if err != nil {
		return err
	}
	id := c.R.PathValue("id")
	if err := a.Campaigns.Delete(c.Ctx, c.Key.App, id, must); err != nil {
		return campaignError(err)
	}
	a.Log.InfoContext(c.Ctx, "campaign deleted", "app", c.Key.App, "campaign", id, "by", c.Key.Key)
	return c.NoContent()
}
