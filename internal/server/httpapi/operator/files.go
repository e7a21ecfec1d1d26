package operator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

const (
	// fileTime limits the reading of a file and its way to the provider.
	fileTime = 6 * time.Minute
	// maxFileName limits a file's name, in bytes.
	maxFileName = 255
)

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
	sender, err := a.Channels.Sender(c.Ctx, c.Key.App, channelOf(c))
	if err != nil {
		return err
	}
	up, ok := sender.(push.Uploader)
	if !ok {
		return notification.BadField("channel", "%s takes no files", channelOf(c))
	}
	f := &push.File{Type: q.Get("type"), Name: q.Get("name"), Size: c.R.ContentLength, Body: c.R.Body}
	most := up.MaxFile(f.Type)
	switch {
	case most == 0:
		return notification.BadField("type", "%.40q is no kind of file of this channel", f.Type)
	case f.Name == "" || len(f.Name) > maxFileName || !utf8.ValidString(f.Name) || strings.ContainsAny(f.Name, "/\\\r\n\x00"):
		return notification.BadField("name", "must be the file's name, of at most %d bytes and without a path", maxFileName)
	case !json.Valid([]byte(q.Get("address"))):
		return notification.BadField("address", `must be the address of a chat, like {"chat_id":42}`)
	case f.Size <= 0:
		return notification.BadField("body", "must be the file, with its Content-Length")
	case f.Size > most:
		return call.TooLarge(most)
	}
	rc := http.NewResponseController(c.W)
	until := time.Now().Add(fileTime)
	_, _ = rc.SetReadDeadline(until), rc.SetWriteDeadline(until) // tests' writers have no deadlines
	id, err := up.Upload(c.Ctx, json.RawMessage(q.Get("address")), f)
	return c.Value(http.StatusOK, fileJSON{tested("", err), id})
}
