package public

import (
	"errors"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

const (
	maxAckIDs   = 1000 // as many as a recipient may have pending by default
	maxAckBytes = maxAckIDs * (notification.MaxNameBytes + 8)
)

// Acks is POST /v1/acks: a client that is not connected acknowledges what reached it another way.
func (a *API) Acks(c *call.Call) error {
	a.allowOrigin(c)
	q, err := c.Params("recipient", "token", "device")
	if err != nil {
		return err
	}
	token := access.Bearer(c.R.Header)
	if token == "" {
		token = q.Get("token")
	}
	client, err := a.Access.Client(c.Ctx, access.Claim{
		App: q.Get("app"), Token: token, Recipient: q.Get("recipient"), Device: q.Get("device"),
		CertURI: access.CertURI(c.R.TLS), Origin: c.R.Header.Get("Origin"), Host: c.R.Host,
	})
	if err != nil {
		return clientRefused(err)
	}
	if client.Peek {
		return problem.Forbidden.With("this key may only observe, not acknowledge")
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, maxAckBytes); err != nil {
		return err
	}
	ids, err := decodeIDs(*buf)
	if err != nil {
		return err
	}
	n, err := a.Mailbox.Ack(c.Ctx, client.App, client.Recipient, client.Device, ids)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, append(strconv.AppendInt([]byte(`{"acked":`), int64(n), 10), "}\n"...))
}

// clientRefused words a refusal for a client, which has a token and no roles.
func clientRefused(err error) error {
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return problem.Unauthenticated.With("the client's token is missing, wrong or expired")
	case errors.Is(err, access.ErrForbidden):
		return problem.Forbidden.With("the token is for another recipient or app, or the page's origin is not on the app's list")
	}
	return err
}

// AcksPreflight answers a browser that asks whether a page may call POST /v1/acks.
func (a *API) AcksPreflight(c *call.Call) error {
	if a.allowOrigin(c) {
		h := c.W.Header()
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.NoContent()
}

// decodeIDs reads {"ids":[…]}.
func decodeIDs(body []byte) (ids []string, err error) {
	if err := (call.Fields{"ids": call.Texts(&ids, maxAckIDs, notification.CheckName)}).Decode(body); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, notification.BadField("ids", "is required: name at least one notification")
	}
	return ids, nil
}
