package telegram

import (
	"context"

	"godwit.dev/godwit/internal/sending/push"
)

// unchanged is the beginning of the answer to an edit that changes nothing, such as a repeated edit after a crash.
const unchanged = "Bad Request: message is not modified"

// Correct edits the text of a message, or the caption of one with media, and its buttons. The media and the sound
// setting stay. Telegram sets no time within which a bot may edit its own messages.
func (s *Sender) Correct(ctx context.Context, sent push.Sent) error {
	chat, ids, ok := parseIDs(sent.ExternalID)
	if !ok {
		return &push.PermanentError{Reason: "its message id is not known"}
	}
	method, m, err := compose(&sent.Request.Content)
	if err != nil {
		return &push.PermanentError{Reason: err.Error()}
	}
	edit := &message{
		ChatID: itoa(chat), MessageID: ids[0], Text: m.Text, Caption: m.Caption, ParseMode: m.ParseMode, Preview: m.Preview,
		Markup: m.Markup, // empty: the message's buttons are removed
	}
	by := "editMessageCaption"
	switch method {
	case sendSticker:
		return &push.PermanentError{Reason: "a sticker has no text"}
	case sendAlbum:
		edit.Caption, edit.ParseMode = m.Media[0].Caption, m.Media[0].ParseMode
	case sendText:
		by = "editMessageText"
	}
	_, err = s.call(ctx, s.cfg.Client, by, edit, nil)
	return err
}
