package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	mediumPath = "/ui/campaigns/file"
	// maxMedium limits a form with a file for Telegram, in bytes: 50 MB is the most that Telegram takes.
	maxMedium = 50<<20 + maxForm
	// mediumTime limits the time for a file to reach the server and then Telegram.
	mediumTime = 15 * time.Minute
)

// medium is a file for a message in Telegram that was uploaded, and its fields in the form of a campaign.
type medium struct {
	Form    *form
	Type    string
	Name    string
	ID      string
	Problem string
	chat    string
}

// uploadMedium gives Telegram a file, and puts its id into the form of the campaign.
func (a *admin) uploadMedium(v *visit) error {
	v.again = true // until Telegram has it
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(v.r.Context()), mediumTime, fmt.Errorf("the file did not reach Telegram in %s", mediumTime))
	defer cancel()
	rc := http.NewResponseController(v.w)
	until := time.Now().Add(mediumTime)
	_, _ = rc.SetReadDeadline(until), rc.SetWriteDeadline(until.Add(patience)) // fail only for a test's writer, which has no deadlines
	m := new(medium)
	if err := m.take(v.r, func(f *push.File) error { return a.giveMedium(ctx, v, m, f) }); err != nil {
		return err
	}
	if m.ID != "" {
		v.again, v.made = false, m.ID
		m.Form = &form{Values: url.Values{"media": {m.Type}, "media_url": {m.ID}}}
		v.w.Header().Set("HX-Trigger-After-Settle", "uploaded")
	}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "compose", "uploaded", m)
	}
	return a.show(v, "medium", v.t("A file for Telegram"), "campaigns", m)
}

// take reads the form up to its file, which comes last, and hands the file on.
func (m *medium) take(r *http.Request, give func(*push.File) error) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return mistaken(http.StatusBadRequest, "The form could not be read.")
	}
	for {
		p, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			m.Problem = "Choose a file."
			return nil
		case err != nil:
			m.Problem = "The file did not come whole."
			return nil
		case p.FormName() == "file":
			return m.takeFile(p, give)
		}
		b, err := io.ReadAll(io.LimitReader(p, maxOption))
		if err != nil {
			m.Problem = "The form did not come whole."
			return nil
		}
		switch p.FormName() {
		case "type":
			m.Type = strings.TrimSpace(string(b))
		case "chat":
			m.chat = strings.TrimSpace(string(b))
		}
	}
}

func (m *medium) takeFile(p *multipart.Part, give func(*push.File) error) error {
	m.Name = p.FileName()
	switch {
	case m.Name == "":
		m.Problem = "Choose a file."
	case m.chat == "":
		m.Problem = "Name a chat: Telegram takes files in chats only. The message is deleted again."
	default:
		return give(&push.File{Type: m.Type, Name: m.Name, Size: -1, Body: p})
	}
	return nil
}

// giveMedium gives Telegram the file. Telegram's refusals are problems of the form.
func (a *admin) giveMedium(ctx context.Context, v *visit, m *medium, f *push.File) error {
	address, err := json.Marshal(map[string]string{"chat_id": m.chat})
	if err != nil {
		return err
	}
	give, err := a.Channels.Upload(ctx, v.person.App, push.Telegram, address, f)
	var field *notification.FieldError
	switch {
	case errors.As(err, &field), errors.Is(err, channel.ErrNotConfigured), errors.Is(err, channel.ErrDisabled):
		m.Problem = sentence(err.Error())
		return nil
	case err != nil:
		return err
	}
	id, err := give(ctx)
	if err != nil {
		m.Problem = sentence("Telegram did not take the file: " + err.Error())
		return nil
	}
	m.ID = id
	a.Log.InfoContext(ctx, "file uploaded on the web page", "app", v.person.App, "channel", push.Telegram, "type", m.Type, "by", v.person.Name())
	return nil
}
