package backend

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Limits of one page of an app's notifications. A page may contain few items, or none, although there is a next page.
const (
	maxPageNames     = 2000 // limits the recipients whose mailboxes are checked for pending copies
	maxPageHistories = 200  // reads of a recipient's notifications
	namesAtOnce      = 100
)

// ListNotifications is GET /v1/notifications: those of all recipients, by recipient, and for each recipient newest first. Stores hold
// notifications by recipient, so the list follows that order.
func (a *API) ListNotifications(c *call.Call) error {
	q, err := c.Params("status", "since", "limit", "cursor")
	if err != nil {
		return err
	}
	w := &copiesWalk{a: a, c: c}
	if w.limit, err = call.Page(q); err != nil {
		return err
	}
	if w.status, err = statusOf(q.Get("status")); err != nil {
		return err
	}
	if text := q.Get("since"); text != "" {
		if w.since, err = parseTime("since", text); err != nil {
			return err
		}
	}
	if err := w.from(q.Get("cursor")); err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return err
	}
	b := append(appendRecords([]byte(`{"items":`), w.found), `,"next_cursor":`...)
	if next := w.next(); next != "" {
		b = call.AppendString(b, next)
	} else {
		b = append(b, "null"...)
	}
	return c.JSON(http.StatusOK, append(b, "}\n"...))
}

// statusOf reads the parameter status; empty: 0, which means any.
func statusOf(text string) (notification.Status, error) {
	if text == "" {
		return 0, nil
	}
	s, ok := notification.ParseStatus(text)
	if !ok {
		return 0, notification.BadField("status", "%q is not a status", notification.Clip(text))
	}
	return s, nil
}

// copiesWalk reads an app's notifications, recipient by recipient.
type copiesWalk struct {
	a      *API
	c      *call.Call
	status notification.Status
	since  time.Time
	limit  int

	name  string // the recipient whose notifications before pos come next; if pos is 0, the recipients after this name
	pos   int64
	over  bool
	found []mailbox.Record
	names int // looked at
	reads int
}

// from reads a cursor: the position and the name, separated by a dot.
func (w *copiesWalk) from(cursor string) (err error) {
	if cursor == "" {
		return nil
	}
	pos, name, ok := strings.Cut(cursor, ".")
	if w.pos, err = strconv.ParseInt(pos, 10, 64); !ok || err != nil || w.pos < 0 || notification.CheckName("cursor", name) != nil {
		return notification.BadField("cursor", "is not one that this list gave")
	}
	w.name = name
	return nil
}

func (w *copiesWalk) next() string {
	if w.over {
		return ""
	}
	return strconv.FormatInt(w.pos, 10) + "." + w.name
}

func (w *copiesWalk) full() bool {
	return len(w.found) >= w.limit || w.names >= maxPageNames || w.reads >= maxPageHistories
}

func (w *copiesWalk) run() error {
	for w.pos > 0 && !w.full() {
		if err := w.read(); err != nil {
			return err
		}
	}
	for !w.full() {
		infos, next, err := w.a.Mailbox.Recipients(w.c.Ctx, w.c.Key.App, namesAtOnce, w.name)
		if err != nil {
			return err
		}
		for i := range infos {
			if w.full() {
				return nil
			}
			w.names++
			w.name = infos[i].Name
			if w.status == notification.Stored && infos[i].Pending == 0 {
				continue
			}
			for first := true; (first || w.pos > 0) && (first || !w.full()); first = false {
				if err := w.read(); err != nil {
					return err
				}
			}
			if w.pos > 0 {
				return nil
			}
		}
		if next == "" {
			w.over = true
			return nil
		}
	}
	return nil
}

// read reads more of the recipient's notifications. They are in the order of their storage, so all notifications behind one that is too old
// are too old as well.
func (w *copiesWalk) read() error {
	w.reads++
	records, next, err := w.a.Mailbox.History(w.c.Ctx, w.c.Key.App, w.name, w.status, w.limit-len(w.found), w.pos)
	if err != nil {
		return err
	}
	w.pos = next
	for i := range records {
		if records[i].CreatedAt.Before(w.since) {
			w.pos = 0
			break
		}
		w.found = append(w.found, records[i])
	}
	return nil
}
