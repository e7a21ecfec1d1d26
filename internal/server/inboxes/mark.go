package inboxes

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// maxMark is the most bytes of a mark's body.
const maxMark = 4 << 10

// what is what a call marks.
type what string

const (
	seen     what = "seen"
	read     what = "read"
	archived what = "archived"
	pinned   what = "pinned"
	answered what = "answered"
)

// of sets a mark.
func (w what) of(m *inbox.Mark, is *bool) {
	switch w {
	case seen:
		m.Seen = is
	case read:
		m.Read = is
	case archived:
		m.Archived = is
	case pinned:
		m.Pinned = is
	}
}

// mark is POST /v1/inbox/{id}: it changes one item. The response is the item as it is then, with the counts.
func (s *service) mark(c *call.Call) error {
	o, err := s.owner(c, true)
	if err != nil {
		return err
	}
	id := c.R.PathValue("id")
	if err := notification.CheckName("id", id); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxMark)
	if err != nil {
		return err
	}
	m := inbox.Mark{ID: id, At: s.now()}
	said := map[what]*bool{}
	fields := call.Fields{}
	for _, w := range []what{seen, read, archived, pinned} {
		said[w] = new(bool)
		fields[string(w)] = call.Reader(func(field string, raw json.RawMessage) error {
			if err := call.ReadValue(field, raw, said[w]); err != nil {
				return err
			}
			w.of(&m, said[w])
			return nil
		})
	}
	fields[string(answered)] = call.Reader(func(field string, raw json.RawMessage) error {
		if err := call.ReadValue(field, raw, &m.Answered); err != nil {
			return err
		}
		return notification.CheckName(field, m.Answered)
	})
	if err := fields.Decode(body); err != nil {
		return err
	}
	if err := check(&m); err != nil {
		return err
	}
	if m.Answered != "" {
		if err := s.offered(c, o, &m); err != nil {
			return err
		}
	}
	counts, err := s.store.MarkInbox(c.Ctx, o.app, o.recipient, m)
	if err != nil {
		return notThere(err, id)
	}
	for w := range said {
		s.counted(w, &m)
	}
	it, err := s.store.InboxItem(c.Ctx, o.app, o.recipient, id)
	if err != nil {
		return notThere(err, id) // it was withdrawn meanwhile
	}
	if m.Answered != "" {
		s.marks.WithLabelValues(string(answered)).Inc()
		if err := s.mailbox.Answer(c.Ctx, o.app, o.recipient, id, notification.ReplyOf(it.Answered)); err != nil {
			return err
		}
	}
	b := appendItem([]byte(`{"item":`), &it)
	return c.JSON(http.StatusOK, append(appendCounts(append(b, ','), &counts), "}\n"...))
}

// check applies the rules for what a call changes.
func check(m *inbox.Mark) error {
	switch set := func(is *bool) bool { return is != nil && *is }; {
	case m.Seen == nil && m.Read == nil && m.Archived == nil && m.Pinned == nil && m.Answered == "":
		return notification.BadField("read", "is missing, and so are seen, archived, pinned and answered: nothing is to be changed")
	case m.Seen != nil && !*m.Seen && (set(m.Read) || m.Answered != ""):
		return notification.BadField("seen", "is false, but what is read or answered was seen")
	case m.Read != nil && !*m.Read && m.Answered != "":
		return notification.BadField("read", "is false, but what is answered was read")
	}
	return nil
}

// offered refuses an answer that is none of the item's actions.
func (s *service) offered(c *call.Call, o owner, m *inbox.Mark) error {
	it, err := s.store.InboxItem(c.Ctx, o.app, o.recipient, m.ID)
	if err != nil {
		return notThere(err, m.ID)
	}
	if in := it.Content.Inbox; in != nil && slices.ContainsFunc(in.Actions, func(a notification.Action) bool { return a.ID == m.Answered }) {
		return nil
	}
	return notification.BadField(string(answered), "is %s, which is none of the item's actions", m.Answered)
}

// counted counts a mark if the call has set it.
func (s *service) counted(w what, m *inbox.Mark) {
	var of inbox.Mark
	is := true
	w.of(&of, &is)
	if of.Seen != nil && m.Seen != nil || of.Read != nil && m.Read != nil || of.Archived != nil && m.Archived != nil || of.Pinned != nil && m.Pinned != nil {
		s.marks.WithLabelValues(string(w)).Inc()
	}
}

// markAll is POST /v1/inbox/seen, read and archived: it marks everything, or what was shown until a cursor, of all categories or one.
func (s *service) markAll(w what) func(*call.Call) error {
	return func(c *call.Call) error {
		o, err := s.owner(c, true)
		if err != nil {
			return err
		}
		body, err := call.ReadBody(c.R, nil, maxMark)
		if err != nil {
			return err
		}
		m := inbox.Mark{From: 1, To: math.MaxUint64, At: s.now()}
		is := true
		w.of(&m, &is)
		if len(body) > 0 {
			if err := o.readRange(body, &m); err != nil {
				return err
			}
		}
		counts, err := s.store.MarkInbox(c.Ctx, o.app, o.recipient, m)
		if err != nil {
			return err
		}
		s.marks.WithLabelValues(string(w)).Inc()
		return sendCounts(c, &counts)
	}
}

// readRange reads which items a call marks.
func (o *owner) readRange(body []byte, m *inbox.Mark) error {
	var until, category *string
	if err := (call.Fields{"until": &until, "category": &category}).DecodeOrNull(body); err != nil {
		return err
	}
	m.Category = category
	if until == nil {
		return nil
	}
	p, err := o.place(*until, "until")
	if err != nil {
		return err
	}
	m.From, m.To = max(1, p.before), p.top
	return nil
}
