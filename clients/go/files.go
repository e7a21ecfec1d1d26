package godwit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// uploadFor limits an upload with the server's way to the provider: the server gives up after six minutes.
const uploadFor = 7 * time.Minute

// File is a file for the provider of a channel.
type File struct {
	Type    string          // the field of messages in which its id will stand: photo, video, animation, audio, document or sticker
	Name    string          // without a path; people see it
	Address json.RawMessage // of a chat that has the bot: {"chat_id":42}
	Size    int64           // in bytes
	Body    io.Reader
}

// UploadFile gives the provider of a channel a file, once, and returns its id for messages. Only telegram keeps files.
func (c *Client) UploadFile(ctx context.Context, channel string, f *File) (id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, uploadFor, fmt.Errorf("the file was not taken in %s", uploadFor))
	defer cancel()
	resp, err := c.send(ctx, request{
		method: http.MethodPost, path: pathTo("channels", channel) + "/files", file: f.Body, size: f.Size, contentType: "application/octet-stream",
		query: url.Values{"type": {f.Type}, "name": {f.Name}, "address": {string(f.Address)}},
	}, "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var a struct {
		OK     bool
		Detail string
		FileID string `json:"file_id"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&a); err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	if !a.OK {
		return "", errors.New(a.Detail)
	}
	return a.FileID, nil
}
