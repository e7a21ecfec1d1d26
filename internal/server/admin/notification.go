package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/lifecycle"
)

// Timelines report the history of copies and new notifications.
type Timelines interface {
	Of(ctx context.Context, app, id, to string) (*timeline.Timeline, error)
	// Follow reports a copy's changes until it has ended.
	Follow(ctx context.Context, app, id, to string, f timeline.Follower) error
	// Tap reports new notifications for a recipient.
	Tap(ctx context.Context, app, to string, tell func(list []timeline.Arrival, more bool) error, alive func() error) error
}

// copies is the list of copies of a notification with several recipients.
type copies struct {
	ID    string
	Title string // empty: it is not kept any more
	Items []mailbox.Record
	More  bool // than are listed
}

// mostCopies limits the recipients of a notification that are listed.
const mostCopies = 200

// findNotification redirects to the notification with the typed id.
func (a *admin) findNotification(v *visit) error {
	id := text(v.r.URL.Query(), "id")
	if notification.CheckName("id", id) != nil {
		return mistaken(http.StatusNotFound, "There is no notification of this id.")
	}
	a.leadTo(v, "/ui/notifications/"+id, http.StatusOK)
	return nil
}

// showNotification shows the copy of the recipient in ?to=, or else the only copy; if there are several, it shows a list.
func (a *admin) showNotification(v *visit) error {
	id, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	ctx, app, to := v.r.Context(), v.person.App, text(v.r.URL.Query(), "to")
	if to == "" {
		records, err := a.Mailbox.Copies(ctx, app, id, mostCopies+1)
		if err != nil {
			return missing(err, noSuchNotification, app)
		}
		if len(records) != 1 {
			if len(records) == 0 {
				return missing(mailbox.ErrNotFound, noSuchNotification, app)
			}
			list := copies{ID: id, Items: records[:min(len(records), mostCopies)], More: len(records) > mostCopies}
			if list.Title, err = a.titleOf(ctx, app, list.Items); err != nil {
				return err
			}
			return a.show(v, "copies", id, "recipients", list)
		}
		to = records[0].To
	}
	t, err := a.timelineOf(ctx, app, id, to)
	if err != nil {
		return err
	}
	if t.Message, err = a.messageOf(v, &t.Record); err != nil {
		return err
	}
	title := id
	if t.Message != nil && t.Message.Title != "" {
		title = t.Message.Title
	}
	return a.show(v, "notification", clip(title, 80), "recipients", t)
}

// noSuchNotification names the app that was searched: publishing with the key of another app is an easy mistake.
const noSuchNotification = "There is no such notification in the app %s. If it was published with the key of another app, it is there. What has ended is kept for a week, unless the server's setting retain says otherwise."

// story is a copy's page.
type story struct {
	*timeline.Timeline
	Open    bool     // the copy has not ended: the page follows it
	Events  string   // where it is told of
	Message *message // nil: it is not kept any more
}

func (a *admin) timelineOf(ctx context.Context, app, id, to string) (*story, error) {
	if notification.CheckName("to", to) != nil {
		return nil, missing(mailbox.ErrNotFound, noSuchNotification, app)
	}
	t, err := a.Timelines.Of(ctx, app, id, to)
	if err != nil {
		return nil, missing(err, noSuchNotification, app)
	}
	return storyOf(t), nil
}

func storyOf(t *timeline.Timeline) *story {
	r := &t.Record
	return &story{
		Timeline: t, Open: !r.Status.Settled(r.Ack),
		Events: "/ui/notifications/" + url.PathEscape(r.ID) + endless + "?" + url.Values{"to": {r.To}}.Encode(),
	}
}

// errLeft ends a stream after the person has left its page.
var errLeft = errors.New("the page was left")

// followNotification sends a copy's history again after each change, until the copy has ended.
func (a *admin) followNotification(v *visit) error {
	id, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	app, to := v.person.App, text(v.r.URL.Query(), "to")
	if _, err := a.timelineOf(v.r.Context(), app, id, to); err != nil {
		return err
	}
	s, done, err := a.open(v)
	if err != nil {
		return err
	}
	defer done()
	ctx, end := lifecycle.Until(v.r.Context(), a.Draining)
	defer end()
	err = a.Timelines.Follow(ctx, app, id, to, timeline.Follower{
		Tell:  func(t *timeline.Timeline) error { return a.tell(s, "notification", "story", storyOf(t)) },
		Alive: func() error { return a.alive(s) },
	})
	switch {
	case err == nil:
		s.add("end", "")
		s.send()
	case ctx.Err() == nil && !errors.Is(err, errLeft):
		a.Log.WarnContext(ctx, "a notification's page cannot go on; browsers ask again", "app", app, "id", id, "error", err)
	}
	return nil // the answer has begun
}

// tell sends a part of a page, rendered for the reader's role.
func (a *admin) tell(s *stream, page, part string, content any) error {
	drawn, err := a.draw(s.v.lang, s.v.person.Role, page, part, content)
	if err != nil {
		return err
	}
	s.add(part, drawn)
	return a.say(s)
}

// alive sends a comment as a sign of life while there is nothing new.
func (a *admin) alive(s *stream) error {
	s.b.WriteString(": \n\n")
	return a.say(s)
}

// say sends the added events, if the person is still there and signed in.
func (a *admin) say(s *stream) error {
	if !a.remains(s.v.r, s.v.person) {
		s.b.Reset()
		s.add("gone", "signed out")
		s.send()
		return errLeft
	}
	if !s.send() {
		return errLeft
	}
	return nil
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
	a.Log.InfoContext(ctx, "notification recalled on the web page", "app", app, "id", id, "recipient", to, "copies", n, "by", v.person.Name())
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
