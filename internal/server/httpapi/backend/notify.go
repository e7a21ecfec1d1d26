package backend

import (
	"bytes"
	"net/url"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Notify is POST /v1/notify/{recipient}: the body is the text, the rest is in the query. For shell scripts.
func (a *API) Notify(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	q, err := c.Params("id", "title", "category", "ttl", "expires_at", "send_at", "collapse_key", "digest_key", "priority", "ack")
	if err != nil {
		return err
	}
	d, err := draftOf(q)
	if err != nil {
		return err
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, notification.MaxRequestBytes); err != nil {
		return err
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(*buf, []byte("\n")), []byte("\r")) // echo adds a line break to its output
	if !utf8.Valid(text) {
		return notification.BadField("body", "is not valid UTF-8")
	}
	d.Trace = traceOf(c.R.Header)
	d.Content.Body, d.To = string(text), []string{c.R.PathValue("recipient")}
	if idem != "" && d.ID == "" {
		d.ID = call.DerivedID(c.Key.App, idem, 0)
	}
	if err := a.allow(c.Key.Key, 1); err != nil {
		return err
	}
	p := Post{Key: c.Key, Answer: (*buf)[:0], draft: d}
	if a.Store(c.Ctx, []*Post{&p}); p.Err != nil {
		return p.Err
	}
	*buf = p.Answer
	return c.JSON(p.Status, p.Answer)
}

func draftOf(q url.Values) (d *draft, err error) {
	d = &draft{Draft: notification.Draft{ID: q.Get("id"), CollapseKey: q.Get("collapse_key"), DigestKey: q.Get("digest_key")}}
	d.Content.Title, d.Content.Category = q.Get("title"), q.Get("category")
	if v := q.Get("ttl"); v != "" {
		if d.TTL, err = parsePositive("ttl", v); err != nil {
			return nil, err
		}
	}
	if v := q.Get("expires_at"); v != "" {
		if d.ExpiresAt, err = parseTime("expires_at", v); err != nil {
			return nil, err
		}
	}
	if v := q.Get("send_at"); v != "" {
		if d.SendAt, err = parseTime("send_at", v); err != nil {
			return nil, err
		}
	}
	if d.Priority, err = parsePriority("priority", q.Get("priority")); err != nil {
		return nil, err
	}
	d.Ack, err = parseAckMode("ack", q.Get("ack"))
	return d, err
}
