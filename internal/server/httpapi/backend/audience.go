package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// countPatience limits the counting of an audience: people wait for it while they type.
const countPatience = 10 * time.Second

// AudienceTotals is GET /v1/audience.
func (a *API) AudienceTotals(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	active, disabled, err := a.Endpoints.Totals(c.Ctx, c.Key.App)
	if err != nil {
		return err
	}
	tags, attributes, err := a.Endpoints.Names(c.Ctx, c.Key.App, audience.MaxTagNames)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, map[string]any{"active": active, "disabled": disabled, "tags": tags, "attributes": attributes})
}

type audienceDay struct {
	Day    string `json:"day"`
	Gained int64  `json:"gained"`
	Lost   int64  `json:"lost"`
}

// AudienceDays is GET /v1/audience/days.
func (a *API) AudienceDays(c *call.Call) error {
	q, err := c.Params("from", "to", "channel")
	if err != nil {
		return err
	}
	from, to, err := daysParams(q)
	if err != nil {
		return err
	}
	ch := push.Channel(q.Get("channel"))
	if ch != "" && ch.Find() == nil {
		return notification.BadField("channel", "%q is no channel", notification.Clip(string(ch)))
	}
	days, err := a.Endpoints.Days(c.Ctx, c.Key.App, ch, from, to)
	if err != nil {
		return err
	}
	l := call.NewList[audienceDay](len(days), "")
	for _, d := range days {
		l.Items = append(l.Items, audienceDay{d.Day.Format(time.DateOnly), d.Gained, d.Lost})
	}
	return c.Value(http.StatusOK, l)
}

// CountAudience is POST /v1/audience/count.
func (a *API) CountAudience(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, notification.MaxRequestBytes)
	if err != nil {
		return err
	}
	var picked audience.Audience
	err = audienceFields(&picked).DecodeOrNull(body)
	if err != nil {
		return err
	}
	return a.countAudience(c, &picked)
}

// CountSegment is GET /v1/segments/{name}/count.
func (a *API) CountSegment(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	name := c.R.PathValue("name")
	if err := segment.CheckName("name", name); err != nil {
		return err
	}
	one, err := a.Segments.Get(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	return a.countAudience(c, &audience.Audience{Where: one.Where})
}

func (a *API) countAudience(c *call.Call, picked *audience.Audience) error {
	sel, err := a.selection(c, picked)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Ctx, countPatience)
	defer cancel()
	channels, err := a.Endpoints.Count(ctx, c.Key.App, sel)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, n := range channels {
		total += n
	}
	return c.Value(http.StatusOK, map[string]any{"count": total, "channels": channels})
}

// selection validates an audience and looks its segment up.
func (a *API) selection(c *call.Call, picked *audience.Audience) (*audience.Selection, error) {
	if _, err := a.Segments.Fill(c.Ctx, c.Key.App, picked, ""); err != nil {
		return nil, err
	}
	return picked.Select("")
}

// audienceFields returns the fields of an audience.
func audienceFields(a *audience.Audience) call.Fields {
	return call.Fields{
		"channels": call.Reader(func(field string, raw json.RawMessage) error {
			var names []string
			err := call.Texts(&names, len(push.Channels()), nil)(field, raw)
			for _, ch := range names {
				a.Channels = append(a.Channels, push.Channel(ch))
			}
			return err
		}),
		"recipients": call.Texts(&a.Recipients, audience.MaxRecipients, nil),
		"endpoints":  call.Texts(&a.Endpoints, audience.MaxEndpoints, nil),
		"tags_any":   call.Texts(&a.TagsAny, audience.MaxTags, nil),
		"tags_all":   call.Texts(&a.TagsAll, audience.MaxTags, nil),
		"where":      &a.Where,
		"segment":    &a.Segment,
	}
}
