package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of uploads (https://core.telegram.org/bots/api#sending-files), in bytes.
const (
	maxPhoto = 10 << 20
	maxFile  = 50 << 20

	// uploadFor limits one upload: 50 MB at a little more than 1 Mbit/s.
	uploadFor = 5 * time.Minute
)

var _ push.Uploader = (*Sender)(nil)

// Upload sends a file to a chat, deletes the message again and returns the file's id: Telegram keeps files of deleted messages. The id is
// valid for this bot alone.
func (s *Sender) Upload(ctx context.Context, to json.RawMessage, f *push.File) (id string, err error) {
	chat, thread, err := parseChat(to)
	if err != nil {
		return "", &push.PermanentError{Reason: "address: " + err.Error()}
	}
	i := slices.IndexFunc(push.TelegramMediums, func(m push.TelegramMedium) bool { return m.Name == f.Type })
	if i < 0 {
		return "", &push.PermanentError{Reason: "there is no such kind of file"}
	}
	form, size, kind, err := uploadForm(chat, thread, f)
	if err != nil {
		return "", &push.PermanentError{Reason: "the file's name cannot be sent"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, uploadFor, fmt.Errorf("telegram did not take the file in %s", uploadFor))
	defer cancel()
	client := s.patient(uploadFor)
	defer client.CloseIdleConnections()
	var sent struct {
		sentMessage
		Files map[string]json.RawMessage
	}
	var raw json.RawMessage
	if _, err := s.exchange(ctx, client, mediaMethods[i], form, size, kind, &raw); err != nil {
		return "", provider.Checked(err)
	}
	if json.Unmarshal(raw, &sent.sentMessage) != nil || json.Unmarshal(raw, &sent.Files) != nil {
		return "", &push.UnknownError{Reason: "telegram took the file with an answer that cannot be read"}
	}
	s.delete(ctx, sent.Chat.ID, []deletion{{ids: []int64{sent.MessageID}}}, make([]error, 1)) // if it fails, the file stays visible in this chat
	if id = fileID(sent.Files, f.Type); id == "" {
		return "", &push.PermanentError{Reason: "telegram took the file as something else than " + f.Type + "; send it as a document"}
	}
	return id, nil
}

// MaxFile returns the largest size of a file of a type, in bytes; 0: there is no such type.
func (s *Sender) MaxFile(kind string) int64 {
	switch {
	case kind == "photo":
		return maxPhoto
	case slices.ContainsFunc(push.TelegramMediums, func(m push.TelegramMedium) bool { return m.Name == kind }):
		return maxFile
	}
	return 0
}

// fileID finds the id of the file in a message: of a photo, which has several sizes, the largest one's.
func fileID(message map[string]json.RawMessage, kind string) string {
	var file struct {
		ID string `json:"file_id"`
	}
	raw := message[kind]
	if kind == "photo" {
		var sizes []json.RawMessage
		if json.Unmarshal(raw, &sizes) != nil || len(sizes) == 0 {
			return ""
		}
		raw = sizes[len(sizes)-1]
	}
	if json.Unmarshal(raw, &file) != nil {
		return ""
	}
	return file.ID
}

// uploadForm returns the body of an upload, which is read once, with its size and content type. The size is -1 if the file's is unknown.
func uploadForm(chat string, thread int64, f *push.File) (body io.Reader, size int64, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields := [][2]string{{"chat_id", chat}, {"disable_notification", "true"}}
	if thread != 0 {
		fields = append(fields, [2]string{"message_thread_id", itoa(thread)})
	}
	for _, field := range fields {
		if err := w.WriteField(field[0], field[1]); err != nil {
			return nil, 0, "", err
		}
	}
	if _, err := w.CreateFormFile(f.Type, strings.ToValidUTF8(f.Name, "_")); err != nil {
		return nil, 0, "", err
	}
	head := bytes.Clone(b.Bytes())
	b.Reset()
	if err := w.Close(); err != nil {
		return nil, 0, "", err
	}
	if f.Size < 0 {
		return io.MultiReader(bytes.NewReader(head), f.Body, &b), -1, w.FormDataContentType(), nil
	}
	size = int64(len(head)) + f.Size + int64(b.Len())
	return io.MultiReader(bytes.NewReader(head), io.LimitReader(f.Body, f.Size), &b), size, w.FormDataContentType(), nil
}

// patient makes a client for requests that take longer than messages. The caller closes its connections.
func (s *Sender) patient(timeout time.Duration) *http.Client {
	client := s.cfg.reach().Client(urlguard.Options{Timeout: timeout})
	if t, ok := s.cfg.Client.Transport.(*http.Transport); ok {
		client.Transport.(*http.Transport).TLSClientConfig = t.TLSClientConfig
	}
	return client
}
