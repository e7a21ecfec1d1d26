package operator

import (
	"encoding/json"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

const (
	maxTokenBody     = 32 << 10
	maxTokenPatterns = 256 // the registry's own limit is lower
	defaultTokenTTL  = 24 * time.Hour
)

type tokenJSON struct {
	Token     string      `json:"token"`
	App       string      `json:"app"`
	Recipient string      `json:"recipient"`
	ExpiresAt call.Moment `json:"expires_at"`
}

// MintToken is POST /v1/tokens: it signs a client's token with the app's own key.
func (a *API) MintToken(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxTokenBody)
	if err != nil {
		return err
	}
	req := access.TokenRequest{TTL: defaultTokenTTL}
	if err := decodeToken(body, &req); err != nil {
		return err
	}
	text, expires, err := a.Keys.MintToken(c.Key.App, req)
	if err != nil {
		return err
	}
	c.Made = req.Recipient
	a.Log.InfoContext(c.Ctx, "token made", "app", c.Key.App, "recipient", req.Recipient, "by", c.Key.Key)
	return c.Value(http.StatusCreated, tokenJSON{Token: text, App: c.Key.App, Recipient: req.Recipient, ExpiresAt: call.Moment(expires)})
}

func decodeToken(body []byte, req *access.TokenRequest) error {
	return call.Fields{
		"recipient": &req.Recipient, "group": &req.Group, "device": &req.Device,
		"topics": call.Texts(&req.Topics, maxTokenPatterns, nil), "objects": call.Texts(&req.Objects, maxTokenPatterns, nil), "serve": call.Texts(&req.Serve, maxTokenPatterns, nil),
		"publish": call.Texts(&req.Publish, maxTokenPatterns, nil),
		"ttl": call.Reader(func(field string, raw json.RawMessage) (err error) {
			text := string(raw) // a number of seconds
			if raw[0] == '"' {
				if err := call.ReadValue(field, raw, &text); err != nil {
					return err
				}
			}
			if req.TTL, err = notification.ParseDuration(text); err != nil {
				err = notification.BadField(field, "%s", err)
			}
			return err
		}),
	}.Decode(body)
}
