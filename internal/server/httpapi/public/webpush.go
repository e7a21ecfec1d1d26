package public

import (
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// WebPushKey is GET /v1/webpush/key. Pages subscribe with this key, so any page may read it.
func (a *API) WebPushKey(c *call.Call) error {
	c.W.Header().Set("Access-Control-Allow-Origin", "*")
	q, err := c.Params()
	if err != nil {
		return err
	}
	app, err := a.Apps.App(q.Get("app"))
	if err != nil {
		return err
	}
	key, err := a.Channels.WebPushKey(c.Ctx, app.Name)
	if errors.Is(err, channel.ErrDisabled) {
		return problem.ChannelUnused.With("the app does not use Web Push")
	}
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, map[string]string{"app": app.Name, "public_key": key})
}
