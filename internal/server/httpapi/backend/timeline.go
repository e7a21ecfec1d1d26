package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

type timelineJSON struct {
	ID      string      `json:"id"`
	To      string      `json:"to"`
	Status  string      `json:"status"`
	Why     string      `json:"why"`
	Entries []entryJSON `json:"entries"`
}

type entryJSON struct {
	At      call.Moment `json:"at"`
	Channel *string     `json:"channel"`
	Event   string      `json:"event"`
	Text    string      `json:"text"`
	Planned bool        `json:"planned"`
}

// Timeline is GET /v1/notifications/{id}/timeline?to=.
func (a *API) Timeline(c *call.Call) error {
	id, to, err := copyOf(c)
	if err != nil {
		return err
	}
	if to == "" {
		return notification.BadField("to", "name the recipient whose copy is meant")
	}
	if strings.Contains(c.R.Header.Get("Accept"), "text/event-stream") {
		return a.followTimeline(c, id, to)
	}
	ctx, cancel := context.WithTimeout(c.Ctx, call.Patience)
	defer cancel()
	t, err := a.Timelines.Of(ctx, c.Key.App, id, to)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, viewTimeline(t))
}

type recentJSON struct {
	ID        string      `json:"id"`
	Status    string      `json:"status"`
	CreatedAt call.Moment `json:"created_at"`
	At        call.Moment `json:"at"`
	Why       string      `json:"why"`
}

// RecipientTimeline is GET /v1/recipients/{id}/timeline, newest first.
func (a *API) RecipientTimeline(c *call.Call) error {
	name, q, err := recipientOf(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := call.Page(q)
	if err != nil {
		return err
	}
	cursor, err := numericCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	list, next, err := a.Timelines.OfRecipient(c.Ctx, c.Key.App, name, limit, cursor)
	if err != nil {
		return err
	}
	after := ""
	if next > 0 {
		after = strconv.FormatInt(next, 10)
	}
	l := call.NewList[recentJSON](len(list), after)
	for i := range list {
		r := &list[i]
		l.Items = append(l.Items, recentJSON{
			ID: r.Record.ID, Status: r.Record.Status.String(), CreatedAt: call.Moment(r.Record.CreatedAt), At: call.Moment(r.At), Why: r.Why.String(),
		})
	}
	return c.Value(http.StatusOK, l)
}

var errGone = errors.New("the client is gone")

// followTimeline sends the timeline as server-sent events named timeline, once and after each change. When the copy has ended, it sends the
// event end.
func (a *API) followTimeline(c *call.Call, id, to string) error {
	ctx, end, err := a.openFeed(c)
	if err != nil {
		return err
	}
	defer end()
	f := &feed{c: c, rc: http.NewResponseController(c.W), sse: true}
	begun := false
	say := func(b []byte) error {
		if f.out = b; !f.send() {
			return errGone
		}
		return nil
	}
	err = a.Timelines.Follow(ctx, c.Key.App, id, to, timeline.Follower{
		Tell: func(t *timeline.Timeline) error {
			if !begun {
				begun = true
				if !f.begin() || c.R.Method == http.MethodHead {
					return errGone
				}
			}
			b, err := json.Marshal(viewTimeline(t))
			if err != nil {
				return err
			}
			return say(append(append([]byte("event: timeline\ndata: "), b...), "\n\n"...))
		},
		Alive: func() error { return say([]byte(": \n\n")) },
	})
	switch {
	case errors.Is(err, timeline.ErrTooMany):
		return problem.Busy.With("as many follow timelines of the app as this server has places for").After(feedWriteTime)
	case errors.Is(err, errGone) || ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	_ = say([]byte("event: end\ndata: {}\n\n")) // fails only if the client has left as well
	return nil
}

func viewTimeline(t *timeline.Timeline) timelineJSON {
	v := timelineJSON{ID: t.Record.ID, To: t.Record.To, Status: t.Record.Status.String(), Why: t.Why.String(), Entries: make([]entryJSON, len(t.Entries))}
	for i := range t.Entries {
		e := &t.Entries[i]
		v.Entries[i] = entryJSON{At: call.Moment(e.At), Channel: call.OrNull(string(e.Channel)), Event: e.Event, Text: e.Text.String(), Planned: e.Planned}
	}
	return v
}
