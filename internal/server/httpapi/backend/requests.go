package backend

import (
	"context"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Requests asks workers and clients.
type Requests interface {
	Ask(ctx context.Context, app string, r *request.Request) (*request.Answer, error)
	// AskRecipient sends a request to one session of a recipient; device and the request's subject may be empty.
	AskRecipient(ctx context.Context, app, recipient, device string, r *request.Request) (*request.Answer, error)
}

// Ask is POST /v1/requests/{subject}.
func (a *API) Ask(c *call.Call) error {
	q, err := c.Params("timeout")
	if err != nil {
		return err
	}
	r, err := a.question(c, q.Get("timeout"))
	if err != nil {
		return err
	}
	r.Subject = c.R.PathValue("subject")
	if !c.Key.Rights().CanRequest(r.Subject) {
		return call.NeedRole(access.Publish)
	}
	got, err := a.Requests.Ask(c.Ctx, c.Key.App, r)
	return answer(c, got, err)
}

// AskRecipient is POST /v1/recipients/{id}/requests.
func (a *API) AskRecipient(c *call.Call) error {
	q, err := c.Params("timeout", "device", "subject")
	if err != nil {
		return err
	}
	id, device := c.R.PathValue("id"), q.Get("device")
	if err := notification.CheckName("recipient", id); err != nil {
		return err
	}
	if device != "" {
		if err := notification.CheckName("device", device); err != nil {
			return err
		}
	}
	r, err := a.question(c, q.Get("timeout"))
	if err != nil {
		return err
	}
	r.Subject = q.Get("subject")
	got, err := a.Requests.AskRecipient(c.Ctx, c.Key.App, id, device, r)
	return answer(c, got, err)
}

// question reads the request that is to be sent: any body, its type, and its trace context.
func (a *API) question(c *call.Call, timeout string) (*request.Request, error) {
	r := &request.Request{ContentType: c.R.Header.Get("Content-Type"), Timeout: request.DefaultTimeout}
	if timeout != "" {
		d, err := notification.ParseDuration(timeout)
		if err != nil || d <= 0 {
			return nil, notification.BadField("timeout", "must be a duration like 5s, at most %s", request.MaxTimeout)
		}
		r.Timeout = d
	}
	if len(r.ContentType) > notification.MaxNameBytes {
		return nil, notification.BadField("content_type", "must be a media type of at most %d ASCII characters", notification.MaxNameBytes)
	}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if v := c.R.Header.Values(name); len(v) > 0 {
			if r.Header == nil {
				r.Header = make(frame.Headers)
			}
			r.Header[name] = v
		}
	}
	var err error
	if r.Data, err = call.ReadBody(c.R, nil, frame.MaxBody); err != nil {
		return nil, err
	}
	// The answer may take longer than the server's own deadlines for a connection.
	rc := http.NewResponseController(c.W)
	_ = rc.SetReadDeadline(time.Time{}) // a read deadline would end the request as if its caller had gone; a test's writer has none
	_ = rc.SetWriteDeadline(time.Now().Add(r.Timeout + call.PartTime))
	return r, nil
}

// answer passes the answer on.
func answer(c *call.Call, a *request.Answer, err error) error {
	if err != nil {
		return err
	}
	if !httphead.Displayable(a.ContentType) {
		return problem.BadAnswer.With("the answer is of the type multipart/x-mixed-replace, which is not passed on")
	}
	h := c.W.Header()
	httphead.Protect(h, httphead.API)
	httphead.FromWorker(h, a.Header, httphead.API)
	if a.ContentType != "" {
		h.Set("Content-Type", a.ContentType)
	} else {
		h["Content-Type"] = nil // net/http would guess one
	}
	body := a.Data
	if !httphead.HasBody(a.Status) {
		body = nil
	}
	return c.Send(a.Status, body)
}
