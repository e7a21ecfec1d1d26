package backend

import (
	"net/http"

	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/timeline"
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
	t, err := a.Timelines.Of(c.Ctx, c.Key.App, id, to)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, viewTimeline(t))
}

func viewTimeline(t *timeline.Timeline) timelineJSON {
	v := timelineJSON{ID: t.Record.ID, To: t.Record.To, Status: t.Record.Status.String(), Why: t.Why, Entries: make([]entryJSON, len(t.Entries))}
	for i := range t.Entries {
		e := &t.Entries[i]
		v.Entries[i] = entryJSON{At: call.Moment(e.At), Channel: call.OrNull(e.Channel), Event: e.Event, Text: e.Text, Planned: e.Planned}
	}
	return v
}
