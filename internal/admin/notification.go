package admin

import (
	"context"
	"net/http"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/timeline"
)

// Timelines tell what became of a copy.
type Timelines interface {
	Of(ctx context.Context, app, id, to string) (*timeline.Timeline, error)
}

// copies are those of a notification with several recipients.
type copies struct {
	ID    string
	Items []mailbox.Record
	Count int64
	More  bool // than are listed
}

// mostCopies is how many recipients of a notification are listed.
const mostCopies = 200

// findNotification leads to a notification whose id somebody has typed.
func (a *admin) findNotification(v *visit) error {
	id := text(v.r.URL.Query(), "id")
	if notification.CheckName("id", id) != nil {
		return &mistake{http.StatusNotFound, "There is no notification of this id."}
	}
	a.leadTo(v, "/ui/notifications/"+id, http.StatusOK)
	return nil
}

// showNotification shows the copy of the recipient in ?to=, else of the only one; of several, a list.
func (a *admin) showNotification(v *visit) error {
	id, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	ctx, app, to := v.r.Context(), v.person.App, text(v.r.URL.Query(), "to")
	if to == "" {
		records, err := a.Mailbox.Lookup(ctx, app, id, "")
		if err != nil {
			return err
		}
		if len(records) != 1 {
			if len(records) == 0 {
				return missing(mailbox.ErrNotFound, noSuchNotification)
			}
			list := copies{ID: id, Items: records[:min(len(records), mostCopies)], Count: int64(len(records)), More: len(records) > mostCopies}
			return a.show(v, "copies", id, "recipients", list)
		}
		to = records[0].To
	}
	t, err := a.timelineOf(ctx, app, id, to)
	if err != nil {
		return err
	}
	return a.show(v, "notification", id, "recipients", t)
}

const noSuchNotification = "There is no such notification. What has ended is kept for a week, unless the server's setting retain says otherwise."

// story is a copy's page.
type story struct {
	*timeline.Timeline
	Open bool // it has not ended: the page follows it
	Self string
}

func (a *admin) timelineOf(ctx context.Context, app, id, to string) (*story, error) {
	if notification.CheckName("to", to) != nil {
		return nil, missing(mailbox.ErrNotFound, noSuchNotification)
	}
	t, err := a.Timelines.Of(ctx, app, id, to)
	if err != nil {
		return nil, missing(err, noSuchNotification)
	}
	return &story{Timeline: t, Open: !t.Record.Status.Settled(t.Record.Ack), Self: copyURL(id, to)}, nil
}

// recallNotification takes one copy back.
func (a *admin) recallNotification(v *visit) error {
	id, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	ctx, app, to := v.r.Context(), v.person.App, text(v.r.URL.Query(), "to")
	if _, err := a.timelineOf(ctx, app, id, to); err != nil {
		return err
	}
	n, err := a.Mailbox.Recall(ctx, app, id, to)
	if err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "notification recalled on the web page", "app", app, "id", id, "recipient", to, "copies", n, "key", v.person.Key)
	if v.r.Header.Get("HX-Request") == "" {
		a.leadTo(v, copyURL(id, to), http.StatusOK)
		return nil
	}
	t, err := a.timelineOf(ctx, app, id, to)
	if err != nil {
		return err
	}
	return a.part(v, "notification", "story", t)
}
