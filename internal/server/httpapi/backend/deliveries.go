package backend

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// reportPage is the number of deliveries read at once: a report of a million rows needs no more memory than one page.
const reportPage = 500

type deliveryJSON struct {
	ID         string       `json:"id"`
	Endpoint   string       `json:"endpoint"`
	Recipient  *string      `json:"recipient"`
	Channel    push.Channel `json:"channel"`
	Variant    *string      `json:"variant"` // that it says: A or B; null: there are none, or it is not decided yet
	Outcome    string       `json:"outcome"`
	Detail     *string      `json:"detail"`
	Attempts   int          `json:"attempts"`
	Unsure     bool         `json:"unsure"` // an attempt may have arrived without an answer
	Due        call.Moment  `json:"due"`    // time of the next attempt of a pending delivery
	At         call.Moment  `json:"at"`
	ExternalID *string      `json:"external_id"`
	Shown      bool         `json:"shown"`
	Clicked    bool         `json:"clicked"`
	Dismissed  bool         `json:"dismissed"`
	Recall     *string      `json:"recall"`     // reason why it could not be taken back
	Correction *string      `json:"correction"` // reason why it could not be corrected
	Cursor     string       `json:"cursor"`
}

func viewDelivery(d *campaign.Delivery) deliveryJSON {
	v := deliveryJSON{
		ID: d.ID, Endpoint: d.Endpoint, Recipient: call.OrNull(d.Recipient), Channel: d.Channel, Variant: call.OrNull(d.Variant), Outcome: d.Outcome.String(), Detail: call.OrNull(d.Detail),
		Attempts: d.Attempts, Unsure: d.Unsure, Due: call.Moment(d.Due), At: call.Moment(d.At), ExternalID: call.OrNull(d.External), Shown: d.Shown,
		Clicked: d.Clicked, Dismissed: d.Dismissed, Recall: call.OrNull(d.Recall), Correction: call.OrNull(d.Correction), Cursor: strconv.FormatInt(d.Row, 10),
	}
	switch {
	case d.Outcome == campaign.Sending:
		v.Outcome = campaign.Pending.String()
	case d.Held:
		held := "waits until somebody resumes the campaign"
		v.Detail = &held
	case d.Waits:
		waits := "waits until the better variant is known"
		v.Detail = &waits
	}
	return v
}

var deliveryColumns = []string{
	"id", "endpoint", "recipient", "channel", "outcome", "detail", "attempts", "unsure", "at", "external_id", "shown", "clicked", "dismissed", "recall",
	"correction", "variant",
}

func (v *deliveryJSON) record() []string {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	at := ""
	if !time.Time(v.At).IsZero() {
		at = time.Time(v.At).UTC().Format(call.TimeFormat)
	}
	return []string{
		v.ID, v.Endpoint, text(v.Recipient), string(v.Channel), v.Outcome, notFormula(text(v.Detail)), strconv.Itoa(v.Attempts), strconv.FormatBool(v.Unsure), at,
		notFormula(text(v.ExternalID)), strconv.FormatBool(v.Shown), strconv.FormatBool(v.Clicked), strconv.FormatBool(v.Dismissed), notFormula(text(v.Recall)), notFormula(text(v.Correction)), text(v.Variant),
	}
}

// notFormula prevents a spreadsheet from executing a provider's text as a formula.
func notFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// Deliveries is GET /v1/campaigns/{id}/deliveries: all of them, as NDJSON or CSV, read page by page as fast as the client reads the answer.
func (a *API) Deliveries(c *call.Call) error {
	q, err := c.Params("outcome", "format", "cursor", "limit", "to")
	if err != nil {
		return err
	}
	r := report{a: a, c: c, rc: http.NewResponseController(c.W), id: c.R.PathValue("id"), left: 1<<63 - 1}
	if err := r.parse(q); err != nil {
		return err
	}
	page, err := r.read()
	if err != nil {
		return campaignError(err)
	}
	return r.run(page)
}

// report is one answer with a campaign's deliveries.
type report struct {
	a      *API
	c      *call.Call
	rc     *http.ResponseController
	id     string
	only   *campaign.Outcome
	to     string // empty: everybody
	csv    bool
	cursor int64
	left   int64 // that the client wants
	out    bytes.Buffer
}

func (r *report) parse(q url.Values) (err error) {
	if name := q.Get("outcome"); name != "" {
		o, ok := campaign.ParseOutcome(name)
		if !ok {
			return notification.BadField("outcome", "%q is none of pending, accepted, failed, expired, suppressed, unknown, recalled", notification.Clip(name))
		}
		r.only = &o
	}
	if r.to = q.Get("to"); q.Has("to") {
		if err := notification.CheckName("to", r.to); err != nil {
			return err
		}
	}
	switch format := q.Get("format"); format {
	case "csv":
		r.csv = true
	case "":
		r.csv = strings.Contains(r.c.R.Header.Get("Accept"), "text/csv")
	case "ndjson":
	default:
		return notification.BadField("format", "%q is none of ndjson, csv", notification.Clip(format))
	}
	if text := q.Get("limit"); text != "" {
		if r.left, err = strconv.ParseInt(text, 10, 64); err != nil || r.left < 1 {
			return notification.BadField("limit", "must be a positive number")
		}
	}
	r.cursor, err = numericCursor(q.Get("cursor"))
	return err
}

func (r *report) read() (page []campaign.Delivery, err error) {
	ctx, cancel := context.WithTimeout(r.c.Ctx, call.Patience)
	defer cancel()
	if r.to != "" {
		r.cursor = 0 // all are on one page
		page, err = r.a.Campaigns.ReportTo(ctx, r.c.Key.App, r.id, r.to)
		return slices.DeleteFunc(page, func(d campaign.Delivery) bool { return r.only != nil && d.Outcome != *r.only }), err
	}
	page, r.cursor, err = r.a.Campaigns.Report(ctx, r.c.Key.App, r.id, r.only, int(min(reportPage, r.left)), r.cursor)
	return page, err
}

func (r *report) run(page []campaign.Delivery) error {
	w := csv.NewWriter(&r.out)
	r.c.W.Header()["Content-Type"] = call.NDJSON
	if r.csv {
		r.c.W.Header().Set("Content-Type", "text/csv; charset=utf-8")
		_ = w.Write(deliveryColumns) // into memory
	}
	r.c.Streams()
	r.c.Status = http.StatusOK
	for {
		for i := range page {
			v := viewDelivery(&page[i])
			if r.csv {
				_ = w.Write(v.record()) // into memory
				continue
			}
			line, err := json.Marshal(v)
			if err != nil {
				return err
			}
			r.out.Write(append(line, '\n'))
		}
		w.Flush()
		_ = r.rc.SetReadDeadline(time.Time{}) // a read deadline would end the answer as if the client had gone; fails only for tests' writers, which have no deadlines
		_ = r.rc.SetWriteDeadline(time.Now().Add(call.PartTime))
		if _, err := r.c.W.Write(r.out.Bytes()); err != nil {
			return nil // the client is gone
		}
		r.out.Reset()
		if r.left -= int64(len(page)); r.cursor == 0 || r.left <= 0 {
			return nil
		}
		var err error
		if page, err = r.read(); err != nil {
			r.a.Log.WarnContext(r.c.Ctx, "report is cut off", "campaign", r.id, "error", err)
			panic(http.ErrAbortHandler) // so that the client does not take the part for the whole answer
		}
	}
}

// Intervals of progress, and the id of the last event: a browser that reconnects with this id gets an answer that stops its reconnecting.
const (
	progressEvery = 500 * time.Millisecond
	endEventID    = "end"
)

// CampaignEvents is GET /v1/campaigns/{id}/events: it sends the campaign as server-sent events after each change, until the campaign has
// ended.
func (a *API) CampaignEvents(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	if c.R.Header.Get("Last-Event-ID") == endEventID {
		return c.NoContent() // 204 makes an EventSource stop reconnecting
	}
	id := c.R.PathValue("id")
	v, err := a.Campaigns.Get(c.Ctx, c.Key.App, id)
	if err != nil {
		return campaignError(err)
	}
	ctx, end, err := a.openFeed(c)
	if err != nil {
		return err
	}
	defer end()
	return a.follow(ctx, c, id, v)
}

func (a *API) follow(ctx context.Context, c *call.Call, id string, v *campaign.View) error {
	f := feed{c: c, rc: http.NewResponseController(c.W), sse: true}
	if !f.begin() {
		return nil
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var last []byte
	spoken := time.Now()
	for {
		now, err := json.Marshal(viewCampaign(v, false))
		if err != nil {
			return err
		}
		ended := v.Ended() && v.Open() == 0
		f.out = f.out[:0]
		switch {
		case ended:
			f.out = appendEvent(f.out, endEventID, "end", now)
		case !bytes.Equal(now, last):
			f.out = appendEvent(f.out, "", "progress", now)
		case time.Since(spoken) >= FeedHeartbeat:
			f.out = f.heartbeat()
		}
		if last = now; len(f.out) > 0 {
			if !f.send() || ended {
				return nil
			}
			spoken = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if v, err = a.Campaigns.Get(ctx, c.Key.App, id); err != nil {
			if errors.Is(err, campaign.ErrNotFound) || ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func appendEvent(b []byte, id, name string, data []byte) []byte {
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	return append(append(b, data...), "\n\n"...)
}

// maxDays limits the days in one answer.
const maxDays = 366

type dayJSON struct {
	Day       string           `json:"day"`
	Counts    map[string]int64 `json:"counts"`
	Shown     int64            `json:"shown"`
	Clicked   int64            `json:"clicked"`
	Dismissed int64            `json:"dismissed"`
}

// CampaignDays is GET /v1/campaigns/days and GET /v1/campaigns/{id}/days.
func (a *API) CampaignDays(c *call.Call) error {
	q, err := c.Params("from", "to")
	if err != nil {
		return err
	}
	from, to, err := daysParams(q)
	if err != nil {
		return err
	}
	days, err := a.Campaigns.Days(c.Ctx, c.Key.App, c.R.PathValue("id"), from, to)
	if err != nil {
		return campaignError(err)
	}
	l := call.NewList[dayJSON](len(days), "")
	for _, d := range days {
		v := dayJSON{
			Day: d.Day.Format(time.DateOnly), Counts: publicCounts(d.Outcomes), Shown: d.Reactions[campaign.Shown],
			Clicked: d.Reactions[campaign.Clicked], Dismissed: d.Reactions[campaign.Dismissed],
		}
		delete(v.Counts, campaign.Pending.String())
		l.Items = append(l.Items, v)
	}
	return c.Value(http.StatusOK, l)
}

// daysParams returns the days that a report is asked for: the last 30, unless the call names others.
func daysParams(q url.Values) (from, to time.Time, err error) {
	if to, err = dayParam(q, "to", time.Now()); err != nil {
		return from, to, err
	}
	if from, err = dayParam(q, "from", to.AddDate(0, 0, -29)); err != nil {
		return from, to, err
	}
	if from.After(to) || to.Sub(from) > maxDays*24*time.Hour {
		return from, to, notification.BadField("from", "must be at most %d days before to", maxDays)
	}
	return from, to, nil
}

func dayParam(q url.Values, name string, otherwise time.Time) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise.UTC(), nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, notification.BadField(name, "%q is not a day like 2006-01-02", notification.Clip(text))
	}
	return t, nil
}
