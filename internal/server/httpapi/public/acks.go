package public

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

const (
	maxAckIDs   = 1000 // the default limit of a recipient's pending notifications
	maxAckBytes = maxAckIDs * (notification.MaxNameBytes + 8)

	maxAckTokens  = 100 // enough for those that a device collected while it was offline
	maxTokenBytes = maxAckTokens * (sealed.MaxToken + 8)
)

// Acks is POST /v1/acks: a client that is not connected acknowledges notifications that reached it another way, either with its own
// credentials or with the messages' tokens alone.
func (a *API) Acks(c *call.Call) error {
	if !a.allowOrigin(c) && !credentials(c) {
		c.W.Header().Set("Access-Control-Allow-Origin", "*")
	}
	q, err := c.Params("recipient", "token", "device")
	if err != nil {
		return err
	}
	client, refused := a.Access.Client(c.Ctx, access.Claim{
		App: q.Get("app"), Token: bearer(c), Recipient: q.Get("recipient"), Device: q.Get("device"),
		CertURI: access.CertURI(c.R.TLS), Origin: c.R.Header.Get("Origin"), Host: c.R.Host,
	})
	most := int64(maxAckBytes)
	if refused != nil { // only tokens can help
		if addr := peerAddr(c.R); !a.AckLimit.Allow(addr) {
			return problem.RateLimited.With("this address has acknowledged by token too often").After(a.AckLimit.RetryAfter(addr))
		}
		most = maxTokenBytes
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, most); err != nil {
		return err
	}
	body, err := decodeAcks(*buf)
	switch {
	case err == nil && body.tokens != nil:
		return a.ackTokens(c, &body)
	case refused != nil && !body.named:
		return clientRefused(refused)
	case err != nil:
		return err
	case client.Peek:
		return problem.Forbidden.With("this key may only observe, not acknowledge")
	}
	n, err := a.Mailbox.Ack(c.Ctx, client.App, client.Recipient, client.Device, body.ids)
	if err != nil {
		return err
	}
	return acked(c, n)
}

func acked(c *call.Call, n int) error {
	return c.JSON(http.StatusOK, append(strconv.AppendInt([]byte(`{"acked":`), int64(n), 10), "}\n"...))
}

// ackTokens settles the messages of the tokens. No other credentials are needed, so any page may send them.
func (a *API) ackTokens(c *call.Call, body *acks) error {
	if h := c.W.Header(); h.Get("Access-Control-Allow-Origin") == "" {
		h.Set("Access-Control-Allow-Origin", "*")
	}
	if a.Receipts == nil {
		return badAckTokens()
	}
	n, err := a.Receipts.Acknowledge(c.Ctx, body.tokens, body.event)
	if errors.Is(err, sealed.ErrBad) {
		return badAckTokens()
	}
	if err != nil {
		return err
	}
	return acked(c, n)
}

func badAckTokens() error {
	return problem.Unauthenticated.With("none of the tokens was made by this server for an acknowledgement, or all have expired")
}

// bearer returns a client's token, from any of the places that may contain it.
func bearer(c *call.Call) string {
	if token := access.Bearer(c.R.Header); token != "" {
		return token
	}
	return c.Query().Get("token")
}

// credentials reports whether a call has credentials, valid or not.
func credentials(c *call.Call) bool {
	return bearer(c) != "" || c.Query().Get("recipient") != "" || access.CertURI(c.R.TLS) != ""
}

// clientRefused adapts a refusal to clients, which have a token and no roles.
func clientRefused(err error) error {
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return problem.Unauthenticated.With("the client's token is missing, wrong or expired")
	case errors.Is(err, access.ErrForbidden):
		return problem.Forbidden.With("the token is for another recipient or app, or the page's origin is not on the app's list")
	}
	return err
}

// AcksPreflight answers a browser's preflight request (CORS) for POST /v1/acks. A call that names no app is expected to contain tokens.
func (a *API) AcksPreflight(c *call.Call) error {
	h := c.W.Header()
	switch {
	case a.allowOrigin(c):
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	case c.R.URL.RawQuery == "":
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Headers", "Content-Type")
		h.Set("Access-Control-Max-Age", "86400")
	default:
		return c.NoContent()
	}
	h.Set("Access-Control-Allow-Methods", "POST")
	return c.NoContent()
}

// acks is the body of an acknowledgement.
type acks struct {
	ids, tokens []string
	event       *push.Reaction
	named       bool // the body has a member tokens, valid or not
}

func decodeAcks(body []byte) (a acks, err error) {
	tokens := call.Texts(&a.tokens, maxAckTokens, nil)
	err = call.Fields{
		"ids": call.Texts(&a.ids, maxAckIDs, notification.CheckName),
		"tokens": call.Reader(func(field string, raw json.RawMessage) error {
			a.named = true
			return tokens(field, raw)
		}),
		"event": call.Text(func(field, text string) error {
			what, ok := push.ParseReaction(text)
			if !ok {
				return notification.BadField(field, "%q is none of shown, clicked, dismissed", notification.Clip(text))
			}
			a.event = &what
			return nil
		}),
	}.Decode(body)
	switch {
	case err != nil:
	case a.ids != nil && a.tokens != nil:
		err = notification.BadField("tokens", "give either ids or tokens, not both")
	case a.tokens != nil && len(a.tokens) == 0:
		err = notification.BadField("tokens", "is empty: give at least one")
	case a.tokens == nil && len(a.ids) == 0:
		err = notification.BadField("ids", "is required: name at least one notification")
	case a.tokens == nil && a.event != nil:
		err = notification.BadField("event", "belongs to tokens")
	}
	if err != nil {
		a.tokens = nil
	}
	return a, err
}
