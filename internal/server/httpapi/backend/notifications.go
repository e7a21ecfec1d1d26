package backend

import (
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Publish is POST /v1/notifications, the hot path of the API.
func (a *API) Publish(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, notification.MaxRequestBytes); err != nil {
		return err
	}
	p := Post{Key: c.Key, Idempotency: idem, Trace: traceOf(c.R.Header), Body: *buf, Answer: (*buf)[:0]}
	if err := a.Read(&p); err != nil {
		return err
	}
	if a.Store(c.Ctx, []*Post{&p}); p.Err != nil {
		return p.Err
	}
	*buf = p.Answer
	return c.JSON(p.Status, p.Answer)
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
		steps, err := a.Timelines.StepsOf(c.Ctx, c.Key.App, &records[0])
		if err != nil {
			return err
		}
		b := appendOpen(nil, &records[0])
		for i := range steps {
			b = appendStep(b, &steps[i])
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
