package inboxes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// list is GET /v1/inbox: a page, newest first, with the counts of the whole inbox from the same snapshot.
func (s *service) list(c *call.Call) error {
	o, err := s.owner(c, false, "state", "category", "limit", "cursor")
	if err != nil {
		return err
	}
	q, top, err := o.query()
	if err != nil {
		return err
	}
	asked := o.q.Encode()
	q.Unless = revisionOf(c.R.Header.Get("If-None-Match"), o, asked)
	page, err := s.store.Inbox(c.Ctx, o.app, o.recipient, q)
	if err != nil {
		return err
	}
	c.W.Header().Set("ETag", etag(page.Revision, o, asked))
	c.W.Header().Set("Cache-Control", "private, no-cache")
	if q.Unless != 0 && q.Unless == page.Revision {
		return c.Send(http.StatusNotModified, nil)
	}
	if top == 0 {
		top = page.Newest
	}
	return c.JSON(http.StatusOK, o.page(&page, top))
}

// query reads the query. top is the newest place when the first page was read; 0: this is the first.
func (o *owner) query() (q inbox.Query, top uint64, err error) {
	var known bool
	if q.State, known = inbox.ParseState(o.q.Get("state")); !known {
		return q, 0, notification.BadField("state", "%q is none of %s", notification.Clip(o.q.Get("state")), strings.Join(inbox.StateNames(), ", "))
	}
	if o.q.Has("category") {
		category := o.q.Get("category")
		q.Category = &category
	}
	if q.Limit, err = call.Page(o.q); err != nil {
		return q, 0, err
	}
	if o.q.Has("cursor") {
		p, err := o.place(o.q.Get("cursor"), "cursor")
		if err != nil {
			return q, 0, err
		}
		q.Before, top = p.before, p.top
	}
	return q, top, nil
}

// page writes a page.
func (o *owner) page(p *inbox.Page, top uint64) []byte {
	b := append(make([]byte, 0, 256+512*len(p.Items)), `{"items":[`...)
	for i := range p.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, &p.Items[i])
	}
	b = appendCounts(append(b, ']', ','), &p.Counts)
	shown := places{top: top}
	if p.More && len(p.Items) > 0 {
		shown.before = p.Items[len(p.Items)-1].Place
	}
	b = append(append(append(b, `,"until":"`...), o.cursor(shown)...), `","next_cursor":`...)
	if !p.More {
		return append(b, "null}\n"...)
	}
	return append(append(append(b, '"'), o.cursor(shown)...), "\"}\n"...)
}

// appendCounts appends the members of counts.
func appendCounts(b []byte, c *inbox.Counts) []byte {
	categories, _ := json.Marshal(c.Categories) // numbers only
	if c.Categories == nil {
		categories = []byte("{}")
	}
	b = strconv.AppendInt(append(b, `"unseen":`...), int64(c.Unseen), 10)
	b = strconv.AppendInt(append(b, `,"unread":`...), int64(c.Unread), 10)
	b = strconv.AppendInt(append(b, `,"total":`...), int64(c.Total), 10)
	return append(append(b, `,"categories":`...), categories...)
}

func appendItem(b []byte, it *inbox.Item) []byte {
	n := &it.Content
	b = appendText(append(b, '{'), "id", it.ID)
	b = appendText(append(b, ','), "title", n.Title)
	b = appendText(append(b, ','), "body", n.Body)
	b = appendText(append(b, ','), "category", n.Category)
	b = frame.AppendData(b, n.Data, n.ContentType)
	actions := []byte("[]")
	if n.Inbox != nil && len(n.Inbox.Actions) > 0 {
		actions, _ = json.Marshal(n.Inbox.Actions) // texts only
	}
	b = append(append(b, `,"actions":`...), actions...)
	b = call.AppendMoment(b, "created_at", it.CreatedAt)
	b = call.AppendMoment(b, "kept_until", it.KeptUntil)
	b = call.AppendMoment(b, "seen_at", it.SeenAt)
	b = call.AppendMoment(b, "read_at", it.ReadAt)
	b = call.AppendMoment(b, "archived_at", it.ArchivedAt)
	b = strconv.AppendBool(append(b, `,"pinned":`...), it.Pinned)
	if b = append(b, ','); it.Answered == "" {
		b = append(b, `"answered":null`...)
	} else {
		b = appendText(b, "answered", it.Answered)
	}
	return append(call.AppendMoment(b, "answered_at", it.AnsweredAt), '}')
}

func appendText(b []byte, name, text string) []byte {
	value, _ := json.Marshal(text) // of valid UTF-8
	return append(append(append(append(b, '"'), name...), `":`...), value...)
}

// counts is GET /v1/inbox/counts.
func (s *service) counts(c *call.Call) error {
	o, err := s.owner(c, false)
	if err != nil {
		return err
	}
	counts, err := s.store.InboxCounts(c.Ctx, o.app, o.recipient)
	if err != nil {
		return err
	}
	tag := etag(counts.Revision, o, "counts")
	c.W.Header().Set("ETag", tag)
	c.W.Header().Set("Cache-Control", "private, no-cache")
	if revisionOf(c.R.Header.Get("If-None-Match"), o, "counts") == counts.Revision && counts.Revision != 0 {
		return c.Send(http.StatusNotModified, nil)
	}
	return sendCounts(c, &counts)
}

func sendCounts(c *call.Call, counts *inbox.Counts) error {
	return c.JSON(http.StatusOK, append(appendCounts([]byte{'{'}, counts), "}\n"...))
}

// item is GET /v1/inbox/{id}.
func (s *service) item(c *call.Call) error {
	o, err := s.owner(c, false)
	if err != nil {
		return err
	}
	it, err := s.found(c, o)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, append(appendItem(nil, &it), '\n'))
}

func (s *service) found(c *call.Call, o owner) (it inbox.Item, err error) {
	id := c.R.PathValue("id")
	if err := notification.CheckName("id", id); err != nil {
		return it, err
	}
	it, err = s.store.InboxItem(c.Ctx, o.app, o.recipient, id)
	return it, notThere(err, id)
}

// notThere adapts the error for an item that is not in the inbox: it never was, was withdrawn, or is another's.
func notThere(err error, id string) error {
	if errors.Is(err, inbox.ErrNotFound) {
		return problem.NotFound.With(fmt.Sprintf("the recipient's inbox has no notification %s: it is another's, was withdrawn, or is kept no more", notification.Clip(id)))
	}
	return err
}
