package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

const (
	maxAckIDs   = 1000 // as many as a recipient may have pending by default
	maxAckBytes = maxAckIDs * (notification.MaxNameBytes + 8)
)

// acks is POST /v1/acks: a client that is not connected acknowledges what reached it another way.
func (a *api) acks(c *call) error {
	a.allowOrigin(c)
	q, err := c.params("recipient", "token", "device")
	if err != nil {
		return err
	}
	token := access.Bearer(c.r.Header)
	if token == "" {
		token = q.Get("token")
	}
	client, err := a.Access.Client(c.ctx, access.Claim{
		App: q.Get("app"), Token: token, Recipient: q.Get("recipient"), Device: q.Get("device"),
		CertURI: access.CertURI(c.r.TLS), Origin: c.r.Header.Get("Origin"), Host: c.r.Host,
	})
	if err != nil {
		return clientRefused(err)
	}
	if client.Peek {
		return problem.Forbidden.With("this key may only observe, not acknowledge")
	}
	buf := a.buffer()
	defer a.release(buf)
	if *buf, err = readBody(c.r, *buf, maxAckBytes); err != nil {
		return err
	}
	ids, err := decodeIDs(*buf)
	if err != nil {
		return err
	}
	n, err := a.Mailbox.Ack(c.ctx, client.App, client.Recipient, client.Device, ids)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, append(strconv.AppendInt([]byte(`{"acked":`), int64(n), 10), "}\n"...))
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

// acksPreflight answers a browser that asks whether a page may call POST /v1/acks.
func (a *api) acksPreflight(c *call) error {
	if a.allowOrigin(c) {
		h := c.w.Header()
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.noContent()
}

// allowOrigin lets pages read the answer that the app lets connect. No other route does: keys do not belong in pages.
func (a *api) allowOrigin(c *call) bool {
	h := c.w.Header()
	h.Add("Vary", "Origin")
	origin := c.r.Header.Get("Origin")
	if origin == "" || !a.Access.Origin(c.query().Get("app"), origin, c.r.Host) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	return true
}

// decodeIDs reads {"ids":[…]}.
func decodeIDs(body []byte) (ids []string, err error) {
	if err := (fields{"ids": texts(&ids, maxAckIDs, notification.CheckName)}).decode(body); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, badField("ids", "is required: name at least one notification")
	}
	return ids, nil
}
