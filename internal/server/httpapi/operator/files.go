package operator

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// fileTime limits the reading of a file and its way to the provider.
const fileTime = 6 * time.Minute

type fileJSON struct {
	testJSON
	FileID string `json:"file_id,omitempty"`
}

// UploadFile is POST /v1/channels/{channel}/files: it gives a provider a file, whose id messages then have.
func (a *API) UploadFile(c *call.Call) error {
	q, err := c.Params("type", "name", "address")
	if err != nil {
		return err
	}
	if c.R.ContentLength <= 0 {
		return notification.BadField("body", "must be the file, with its Content-Length")
	}
	f := &push.File{Type: q.Get("type"), Name: q.Get("name"), Size: c.R.ContentLength, Body: c.R.Body}
	give, err := a.Channels.Upload(c.Ctx, c.Key.App, channelOf(c), json.RawMessage(q.Get("address")), f)
	var long *channel.TooLargeError
	switch {
	case errors.As(err, &long):
		return call.TooLarge(long.Most)
	case err != nil:
		return err
	}
	rc := http.NewResponseController(c.W)
	until := time.Now().Add(fileTime)
	_, _ = rc.SetReadDeadline(until), rc.SetWriteDeadline(until) // tests' writers have no deadlines
	id, err := give(c.Ctx)
	return c.Value(http.StatusOK, fileJSON{tested("", err), id})
}
