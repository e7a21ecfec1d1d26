package httpapi

import (
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/delivery"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

// publish is POST /v1/notifications, the hot path of the API.
func (a *api) publish(c *call) error {
	idem, err := idempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	buf := a.buffer()
	defer a.release(buf)
	if *buf, err = readBody(c.r, *buf, notification.MaxRequestBytes); err != nil {
		return err
	}
	d, err := decodeDraft(*buf)
	if err != nil {
		return err
	}
	if idem != "" && d.ID == "" {
		d.ID = derivedID(c.key.App, idem, 0)
	}
	r, err := a.publishOne(c, &d.Draft)
	if err != nil {
		return err
	}
	if !d.list {
		return a.single(c, r, buf)
	}
	*buf = append(appendResults((*buf)[:0], r), '\n')
	return c.json(http.StatusOK, *buf)
}

// publishOne publishes a draft; a publish that was refused as a whole is an error.
func (a *api) publishOne(c *call, d *notification.Draft) (*delivery.Result, error) {
	if err := a.allow(c, 1); err != nil {
		return nil, err
	}
	r := &a.Publisher.Publish(c.ctx, c.key.App, []*notification.Draft{d})[0]
	if r.Err != nil {
		return nil, notStored(r.Err)
	}
	return r, nil
}

// allow takes n publishes from the key's budget.
func (a *api) allow(c *call, n int) error {
	if a.PublishLimit == nil {
		return nil
	}
	if wait := a.PublishLimit(c.key.Key, n); wait > 0 {
		return rateLimited(wait)
	}
	return nil
}

// single answers a publish to one recipient: 201 stored, 200 a duplicate. buf is lent for the answer.
func (a *api) single(c *call, r *delivery.Result, buf *[]byte) error {
	one := &r.Copies[0]
	if one.Err != nil {
		return notStored(one.Err)
	}
	status := http.StatusCreated
	if one.Duplicate {
		status = http.StatusOK
	}
	*buf = append(appendCopy((*buf)[:0], r.ID, one), '\n')
	return c.json(status, *buf)
}

// status is GET /v1/notifications/{id}: one copy with ?to=, else all.
func (a *api) status(c *call) error {
	id, to, err := c.copyNames()
	if err != nil {
		return err
	}
	records, err := a.Mailbox.Lookup(c.ctx, c.key.App, id, to)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return mailbox.ErrNotFound
	}
	if to != "" {
		return c.json(http.StatusOK, append(appendRecord(nil, &records[0]), '\n'))
	}
	return c.json(http.StatusOK, append(append(appendRecords([]byte(`{"items":`), records), '}'), '\n'))
}

// recall is DELETE /v1/notifications/{id}: it withdraws one copy with ?to=, else all.
func (a *api) recall(c *call) error {
	id, to, err := c.copyNames()
	if err != nil {
		return err
	}
	n, err := a.Mailbox.Recall(c.ctx, c.key.App, id, to)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, append(strconv.AppendInt([]byte(`{"recalled":`), int64(n), 10), "}\n"...))
}

// copyNames returns a notification's id from the path and, if it is given, the recipient in ?to=.
func (c *call) copyNames() (id, to string, err error) {
	q, err := c.params("to")
	if err != nil {
		return "", "", err
	}
	id, to = c.r.PathValue("id"), q.Get("to")
	if err := notification.CheckName("id", id); err != nil {
		return "", "", err
	}
	if to != "" || q.Has("to") {
		err = notification.CheckName("to", to)
	}
	return id, to, err
}
