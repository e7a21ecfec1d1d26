package backend

import (
	"net/http"
	"net/url"
	"strconv"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// ListEndpoints is GET /v1/endpoints.
func (a *API) ListEndpoints(c *call.Call) error {
	q, limit, err := c.ListParams("channel", "recipient", "tag", "status", "where", "segment")
	if err != nil {
		return err
	}
	status, sel, err := a.endpointFilter(c, q)
	if err != nil {
		return err
	}
	after, err := numericCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	found, next, more, err := a.Endpoints.List(c.Ctx, c.Key.App, status, sel, after, limit)
	if err != nil {
		return err
	}
	cursor := ""
	if more {
		cursor = strconv.FormatInt(next, 10)
	}
	l := call.NewList[endpoint.View](len(found), cursor)
	for i := range found {
		l.Items = append(l.Items, endpoint.NewView(&found[i]))
	}
	return c.Value(http.StatusOK, l)
}

// endpointFilter reads the filter of a list or an export of endpoints.
func (a *API) endpointFilter(c *call.Call, q url.Values) (status audience.Status, sel *audience.Selection, err error) {
	picked := audience.Audience{Where: q.Get("where"), Segment: q.Get("segment")}
	if ch := q.Get("channel"); ch != "" {
		if !push.Channel(ch).Known() {
			return "", nil, notification.BadField("channel", "%q is not a channel", notification.Clip(ch))
		}
		picked.Channels = []push.Channel{push.Channel(ch)}
	}
	if name := q.Get("recipient"); name != "" {
		if err := notification.CheckName("recipient", name); err != nil {
			return "", nil, err
		}
		picked.Recipients = []string{name}
	}
	if tag := q.Get("tag"); tag != "" {
		picked.TagsAll = []string{tag}
	}
	switch status = audience.Status(q.Get("status")); status {
	case "", audience.Active, audience.Disabled:
	default:
		return "", nil, notification.BadField("status", "%q is none of active, disabled", notification.Clip(string(status)))
	}
	sel, err = a.selection(c, &picked)
	return status, sel, err
}
