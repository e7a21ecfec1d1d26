package backend

import (
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/delivery"
	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

// Publish is POST /v1/notifications, the hot path of the API.
func (a *API) Publish(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, notification.MaxRequestBytes); err != nil {
		return err
	}
	d, err := decodeDraft(*buf)
	if err != nil {
		return err
	}
	if idem != "" && d.ID == "" {
		d.ID = DerivedID(c.Key.App, idem, 0)
	}
	r, err := a.publishOne(c, &d.Draft)
	if err != nil {
		return err
	}
	if !d.list {
		return a.single(c, r, buf)
	}
	*buf = append(appendResults((*buf)[:0], r), '\n')
	return c.JSON(http.StatusOK, *buf)
}

// publishOne publishes a draft; a publish that was refused as a whole is an error.
func (a *API) publishOne(c *call.Call, d *notification.Draft) (*delivery.Result, error) {
	if err := a.allow(c, 1); err != nil {
		return nil, err
	}
	r := &a.Publisher.Publish(c.Ctx, c.Key.App, []*notification.Draft{d})[0]
	if r.Err != nil {
		return nil, call.NotStored(r.Err)
	}
	return r, nil
}

// allow takes n publishes from the key's budget.
func (a *API) allow(c *call.Call, n int) error {
	if a.PublishLimit == nil {
		return nil
	}
	if wait := a.PublishLimit(c.Key.Key, n); wait > 0 {
		return call.RateLimited(wait)
	}
	return nil
}

// single answers a publish to one recipient: 201 stored, 200 a duplicate. buf is lent for the answer.
func (a *API) single(c *call.Call, r *delivery.Result, buf *[]byte) error {
	one := &r.Copies[0]
	if one.Err != nil {
		return call.NotStored(one.Err)
	}
	status := http.StatusCreated
	if one.Duplicate {
		status = http.StatusOK
	}
	*buf = append(appendCopy((*buf)[:0], r.ID, one), '\n')
	return c.JSON(status, *buf)
}

// Status is GET /v1/notifications/{id}: one copy with ?to=, else all.
func (a *API) Status(c *call.Call) error {
	id, to, err := copyOf(c)
	if err != nil {
		return err
	}
	records, err := a.Mailbox.Lookup(c.Ctx, c.Key.App, id, to)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return mailbox.ErrNotFound
	}
	if to != "" {
		b, err := a.appendSteps(c.Ctx, c.Key.App, appendOpen(nil, &records[0]), &records[0])
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, append(b, "]}\n"...))
	}
	return c.JSON(http.StatusOK, append(append(appendRecords([]byte(`{"items":`), records), '}'), '\n'))
}

// Recall is DELETE /v1/notifications/{id}: it withdraws one copy with ?to=, else all.
func (a *API) Recall(c *call.Call) error {
	id, to, err := copyOf(c)
	if err != nil {
		return err
	}
	n, err := a.Mailbox.Recall(c.Ctx, c.Key.App, id, to)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, append(strconv.AppendInt([]byte(`{"recalled":`), int64(n), 10), "}\n"...))
}

// copyOf returns a notification's id from the path and, if it is given, the recipient in ?to=.
func copyOf(c *call.Call) (id, to string, err error) {
	q, err := c.Params("to")
	if err != nil {
		return "", "", err
	}
	id, to = c.R.PathValue("id"), q.Get("to")
	if err := notification.CheckName("id", id); err != nil {
		return "", "", err
	}
	if to != "" || q.Has("to") {
		err = notification.CheckName("to", to)
	}
	return id, to, err
}
