package godwit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// CampaignSpec is the definition of a campaign. Content is the API's field content: title and body with variables, url,
// locales, and fields for single channels.
type CampaignSpec struct {
	Name string `json:"name,omitempty"`
	// Template names one of the app's templates, whose content is copied when the campaign is created; Content must then be empty.
	Template  string            `json:"template,omitempty"`
	Variables map[string]string `json:"variables,omitempty"` // values for all recipients; they take precedence over attributes
	Content   map[string]any    `json:"content,omitempty"`
	Audience  Audience          `json:"audience,omitzero"`
	// Variants are two messages to compare, or none. The content of the first is the campaign's own. If their shares leave a rest of the
	// audience, it gets the better one DecideAfter both were sent.
	Variants    []CampaignVariant  `json:"variants,omitempty"`
	Metric      string             `json:"metric,omitempty"` // what makes a variant the better one: clicks (the default) or shown
	DecideAfter string             `json:"decide_after,omitempty"`
	LocalTime   *CampaignLocalTime `json:"local_time,omitempty"` // in the place of SendAt
	SendAt      time.Time          `json:"send_at,omitzero"`     // start time: if set, the campaign is scheduled as soon as it is created
	Rate        string             `json:"rate,omitempty"`       // most messages: 25/s, 100/m, 1000/h
	Spread      string             `json:"spread,omitempty"`     // durations are like 30s, 8h, 7d
	QuietHours  *CampaignQuiet     `json:"quiet_hours,omitempty"`
	TTL         string             `json:"ttl,omitempty"`
	ExpiresAt   time.Time          `json:"expires_at,omitzero"`
	Priority    string             `json:"priority,omitempty"` // high, normal or low
	CollapseKey string             `json:"collapse_key,omitempty"`
	UTM         string             `json:"utm,omitempty"`
	Track       *bool              `json:"track,omitempty"` // nil: views and clicks are counted
}

// CampaignQuiet are hours of the day in which a campaign sends nothing.
type CampaignQuiet struct {
	From     string `json:"from"` // 22:00
	To       string `json:"to"`
	Timezone string `json:"timezone,omitempty"` // one time zone for all recipients; empty: each recipient's own
	Fallback string `json:"fallback,omitempty"` // of recipients who have none
}

// CampaignVariant is one of two messages to compare.
type CampaignVariant struct {
	Share     int               `json:"share"` // percent of the audience
	Content   map[string]any    `json:"content,omitempty"`
	Template  string            `json:"template,omitempty"`
	Variables map[string]string `json:"variables,omitempty"` // none: those of the campaign
}

// CampaignLocalTime is a date and a time of the day where each recipient is.
type CampaignLocalTime struct {
	At       string `json:"at"`                 // 2026-12-01T09:00, without a zone
	Fallback string `json:"fallback,omitempty"` // time zone of recipients who have none; empty: UTC
	Passed   string `json:"passed,omitempty"`   // what becomes of those for whom it has passed: next_day (the default) or now
}

// VariantStatus are the figures of a variant, or of the rest of the audience.
type VariantStatus struct {
	Name    string           `json:"name"` // A or B; empty for the rest
	Share   int              `json:"share"`
	Total   int64            `json:"total"`
	Counts  map[string]int64 `json:"counts"`
	Shown   int64            `json:"shown"`
	Clicked int64            `json:"clicked"`
}

// CampaignDecision says which variant the rest of the audience gets.
type CampaignDecision struct {
	At      time.Time `json:"at"`
	Variant string    `json:"variant"`
	Reason  string    `json:"reason"`
}

// CampaignStatus is the state of a campaign.
type CampaignStatus struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Revision    string            `json:"revision"` // of its definition and start time: see ReviseIf
	State       string            `json:"state"`    // draft, scheduled, running, paused, completed, cancelled, failed, correcting, recalling or recalled
	Detail      string            `json:"detail"`   // why it is paused or failed
	Segment     *CampaignSegment  `json:"segment"`  // nil: the audience names none
	Channels    []string          `json:"channels"`
	SendAt      time.Time         `json:"send_at"`
	CreatedAt   time.Time         `json:"created_at"`
	StartedAt   time.Time         `json:"started_at"`
	FinishedAt  time.Time         `json:"finished_at"`
	Enumerated  bool              `json:"enumerated"` // Total is final
	Total       int64             `json:"total"`
	Counts      map[string]int64  `json:"counts"` // by outcome: pending, accepted, failed, expired, suppressed, unknown, recalled
	Shown       int64             `json:"shown"`
	Clicked     int64             `json:"clicked"`
	Dismissed   int64             `json:"dismissed"`
	NotRecalled int64             `json:"not_recalled"` // messages that a recall could not withdraw
	Correction  *Correction       `json:"correction"`   // the last correction; nil: there was none
	Variants    []VariantStatus   `json:"variants"`     // none, or two
	Rest        *VariantStatus    `json:"rest"`         // nil: nobody waits for a decision
	DecidesAt   time.Time         `json:"decides_at"`   // zero: not known yet
	Decision    *CampaignDecision `json:"decision"`     // nil: not yet
	Rate        string            `json:"rate"`         // measured
	ETA         time.Time         `json:"eta"`
}

// CampaignSegment is the stored segment of a campaign's audience. Where is its expression when the campaign began to send; before that, when it
// was made or changed.
type CampaignSegment struct {
	Name  string `json:"name"`
	Where string `json:"where"`
}

// CorrectionSpec is the new content of sent messages: a content, or a template.
type CorrectionSpec struct {
	Content   map[string]any    `json:"content,omitempty"`
	Template  string            `json:"template,omitempty"`
	Variables map[string]string `json:"variables,omitempty"` // none: those of the campaign
}

// Correction is the progress of a correction of sent messages.
type Correction struct {
	At           time.Time `json:"at"`
	Messages     int64     `json:"messages"` // messages to correct; done when Corrected plus NotCorrected reaches it
	Corrected    int64     `json:"corrected"`
	NotCorrected int64     `json:"not_corrected"` // the deliveries say why
	Kept         int64     `json:"kept"`          // messages of channels that do not support corrections
}

// Ended reports whether the campaign no longer changes by itself.
func (s *CampaignStatus) Ended() bool {
	switch s.State {
	case "completed", "cancelled", "failed", "recalled":
		return s.Counts["pending"] == 0
	}
	return false
}

// CampaignTest is the result of a test message.
type CampaignTest struct {
	Endpoint string `json:"endpoint"`
	Channel  string `json:"channel"`
	Outcome  string `json:"outcome"`
	Detail   string `json:"detail"`
}

// Campaign is one message to an audience. Each method returns the campaign's state afterwards.
type Campaign struct {
	ID string
	c  *Client
}

const campaignsPath = "/v1/campaigns"

// CreateCampaign creates a campaign. With a start time it is scheduled, otherwise it is a draft for Start.
func (c *Client) CreateCampaign(ctx context.Context, spec CampaignSpec) (*Campaign, error) {
	var made CampaignStatus
	r := Call{Method: http.MethodPost, Path: campaignsPath, Body: spec, Key: rand.Text()} // so that a retry does not create a second one
	if err := c.Call(ctx, r, &made); err != nil {
		return nil, fmt.Errorf("create campaign: %w", err)
	}
	return c.Campaign(made.ID), nil
}

// Campaign names a campaign by its id. It makes no request.
func (c *Client) Campaign(id string) *Campaign { return &Campaign{id, c} }

// Campaigns lists the app's campaigns, newest first.
func (c *Client) Campaigns(ctx context.Context) iter.Seq2[CampaignStatus, error] {
	return func(yield func(CampaignStatus, error) bool) {
		q := url.Values{"limit": {"100"}}
		for {
			var page struct {
				Items      []CampaignStatus `json:"items"`
				NextCursor string           `json:"next_cursor"`
			}
			if err := c.Call(ctx, Call{Method: http.MethodGet, Path: campaignsPath, Query: q}, &page); err != nil {
				yield(CampaignStatus{}, fmt.Errorf("list campaigns: %w", err))
				return
			}
			for _, s := range page.Items {
				if !yield(s, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			q.Set("cursor", page.NextCursor)
		}
	}
}

func (h *Campaign) do(ctx context.Context, method, verb string, body, into any) error {
	path := pathTo("campaigns", h.ID)
	doing := "read"
	if verb != "" {
		path, doing = path+"/"+verb, verb
	}
	if err := h.c.Call(ctx, Call{Method: method, Path: path, Body: body}, into); err != nil {
		return fmt.Errorf("%s campaign %s: %w", doing, h.ID, err)
	}
	return nil
}

func (h *Campaign) move(ctx context.Context, verb string) (s CampaignStatus, err error) {
	return s, h.do(ctx, http.MethodPost, verb, nil, &s)
}

// Status reads the campaign's state.
func (h *Campaign) Status(ctx context.Context) (s CampaignStatus, err error) {
	return s, h.do(ctx, http.MethodGet, "", nil, &s)
}

// Start starts the campaign, at once or at its start time.
func (h *Campaign) Start(ctx context.Context) (CampaignStatus, error) { return h.move(ctx, "start") }

// Pause stops sending; messages sent so far stay.
func (h *Campaign) Pause(ctx context.Context) (CampaignStatus, error) { return h.move(ctx, "pause") }

// Resume lets it go on.
func (h *Campaign) Resume(ctx context.Context) (CampaignStatus, error) { return h.move(ctx, "resume") }

// Cancel ends the campaign: pending messages are not sent.
func (h *Campaign) Cancel(ctx context.Context) (CampaignStatus, error) { return h.move(ctx, "cancel") }

// Recall withdraws sent messages, on channels that support it. Progress shows when it is done.
func (h *Campaign) Recall(ctx context.Context) (CampaignStatus, error) { return h.move(ctx, "recall") }

// Correct changes the content of messages that were sent over Telegram. Progress shows when it is done.
func (h *Campaign) Correct(ctx context.Context, says CorrectionSpec) (s CampaignStatus, err error) {
	return s, h.do(ctx, http.MethodPost, "correct", says, &s)
}

// Decide ends the comparison of the campaign's variants: the rest of the audience gets this one, A or B.
func (h *Campaign) Decide(ctx context.Context, variant string) (s CampaignStatus, err error) {
	return s, h.do(ctx, http.MethodPost, "decide", map[string]any{"variant": variant}, &s)
}

// Clone creates a draft with the campaign's message, audience and pace. An empty name becomes "Copy of" and the campaign's.
func (h *Campaign) Clone(ctx context.Context, name string) (*Campaign, error) {
	body := map[string]any{}
	if name != "" {
		body["name"] = name
	}
	var made CampaignStatus
	r := Call{Method: http.MethodPost, Path: pathTo("campaigns", h.ID) + "/clone", Body: body, Key: rand.Text()}
	if err := h.c.Call(ctx, r, &made); err != nil {
		return nil, fmt.Errorf("clone campaign %s: %w", h.ID, err)
	}
	return h.c.Campaign(made.ID), nil
}

// RetryUnknown sends messages with unknown outcome again, which may duplicate them, and returns their number.
func (h *Campaign) RetryUnknown(ctx context.Context) (int64, error) {
	var done struct {
		Retried int64 `json:"retried"`
	}
	err := h.do(ctx, http.MethodPost, "retry-unknown", nil, &done)
	return done.Retried, err
}

// Test sends the message to up to 20 endpoints at once, without counting it.
func (h *Campaign) Test(ctx context.Context, endpoints ...string) ([]CampaignTest, error) {
	var done struct {
		Results []CampaignTest `json:"results"`
	}
	err := h.do(ctx, http.MethodPost, "test", map[string]any{"endpoints": endpoints}, &done)
	return done.Results, err
}

// Revise replaces the campaign's definition. It fails if the campaign has started.
func (h *Campaign) Revise(ctx context.Context, spec CampaignSpec) (CampaignStatus, error) {
	return h.ReviseIf(ctx, "", spec)
}

// ReviseIf replaces the campaign's definition if it still has the revision of a status. Otherwise somebody has changed it since, and the call
// fails with status 412. An empty revision replaces any.
func (h *Campaign) ReviseIf(ctx context.Context, revision string, spec CampaignSpec) (s CampaignStatus, err error) {
	call := Call{Method: http.MethodPut, Path: pathTo("campaigns", h.ID), Body: spec, IfMatch: quoted(revision)}
	if err := h.c.Call(ctx, call, &s); err != nil {
		return s, fmt.Errorf("revise campaign %s: %w", h.ID, err)
	}
	return s, nil
}

// Delete removes the campaign and its report. A campaign that may still send has to be cancelled first.
func (h *Campaign) Delete(ctx context.Context) error { return h.DeleteIf(ctx, "") }

// DeleteIf removes the campaign if it still has the revision of a status: see ReviseIf.
func (h *Campaign) DeleteIf(ctx context.Context, revision string) error {
	call := Call{Method: http.MethodDelete, Path: pathTo("campaigns", h.ID), IfMatch: quoted(revision)}
	if err := h.c.Call(ctx, call, nil); err != nil {
		return fmt.Errorf("delete campaign %s: %w", h.ID, err)
	}
	return nil
}

// quoted writes a revision as If-Match takes it; "" stays empty.
func quoted(revision string) string {
	if revision == "" {
		return ""
	}
	return `"` + revision + `"`
}

// CampaignDelivery is the result of one message of a campaign.
type CampaignDelivery struct {
	ID        string    `json:"id"`
	Endpoint  string    `json:"endpoint"`
	Recipient string    `json:"recipient"`
	Channel   string    `json:"channel"`
	Outcome   string    `json:"outcome"`
	Detail    string    `json:"detail"` // the provider's words
	Attempts  int       `json:"attempts"`
	At        time.Time `json:"at"`
	Shown     bool      `json:"shown"`
	Clicked   bool      `json:"clicked"`
	Recall    string    `json:"recall"`  // why the message could not be recalled
	Variant   string    `json:"variant"` // that it says: A or B; empty: there are none, or it is not decided

	Correction string `json:"correction"` // why it could not be corrected
}

// Deliveries lists the campaign's messages with an outcome, or all messages if outcome is empty. Only ctx limits its duration.
func (h *Campaign) Deliveries(ctx context.Context, outcome string) iter.Seq2[CampaignDelivery, error] {
	return func(yield func(CampaignDelivery, error) bool) {
		call := Call{Method: http.MethodGet, Path: pathTo("campaigns", h.ID, "deliveries"), Accept: "application/x-ndjson"}
		if outcome != "" {
			call.Query = url.Values{"outcome": {outcome}}
		}
		in, err := h.c.Stream(ctx, call)
		if err != nil {
			yield(CampaignDelivery{}, fmt.Errorf("read deliveries of campaign %s: %w", h.ID, err))
			return
		}
		defer in.Close()
		for dec := json.NewDecoder(in); dec.More(); {
			var d CampaignDelivery
			if err := dec.Decode(&d); err != nil {
				yield(d, fmt.Errorf("read deliveries of campaign %s: %w", h.ID, err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// progressEvery is the interval at which Progress reads the state.
const progressEvery = time.Second

// Progress yields the campaign's state, now and at each change, until it has ended; it reads the state every second. A draft or paused
// campaign has not ended.
func (h *Campaign) Progress(ctx context.Context) iter.Seq2[CampaignStatus, error] {
	return func(yield func(CampaignStatus, error) bool) {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for last := ""; ; {
			s, err := h.Status(ctx)
			if err != nil {
				yield(s, err)
				return
			}
			if now := fmt.Sprint(s.State, s.Detail, s.Total, s.Counts, s.Shown, s.Clicked); now != last {
				last = now
				if !yield(s, nil) {
					return
				}
			}
			if s.Ended() {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				yield(s, fmt.Errorf("follow campaign %s: %w", h.ID, context.Cause(ctx)))
				return
			}
		}
	}
}
