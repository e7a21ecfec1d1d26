package template

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/press"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of the buttons below a Telegram message. Telegram documents none, but its servers reject larger ones.
const (
	maxButtons       = 100
	maxButtonsInRow  = 8
	maxButtonText    = 256 // bytes; phones show about 40 characters
	maxTelegramMedia = 2048
)

func checkTelegram(in string, t *push.TelegramContent) error {
	switch t.ParseMode {
	case "", "HTML", "MarkdownV2", "Markdown":
	default:
		return notification.BadField(in+"parse_mode", "%q is none of HTML, MarkdownV2, Markdown", t.ParseMode)
	}
	first := ""
	for _, f := range push.TelegramMediums {
		media := *f.Of(t)
		switch {
		case media == "":
			continue
		case first != "":
			return notification.BadField(in+f.Name, oneMedium, first)
		}
		if err := checkMedia(in+f.Name, media); err != nil {
			return err
		}
		first = f.Name
	}
	if len(t.Album) > 0 && first != "" {
		return notification.BadField(in+"album", oneMedium, first)
	}
	if err := checkAlbum(in+"album", t); err != nil {
		return err
	}
	return checkButtons(in+"buttons", t.Buttons)
}

const (
	oneMedium    = "a message has one of photo, video, animation, audio, document, sticker and album, and this one has %s"
	albumButtons = "telegram shows no buttons below an album"
)

func checkMedia(field, media string) error {
	if len(media) > maxTelegramMedia {
		return notification.BadField(field, "has %d bytes; at most %d are allowed", len(media), maxTelegramMedia)
	}
	if err := checkTemplate(media); err != nil {
		return notification.BadField(field, "%v", err)
	}
	return nil
}

// checkAlbum allows what sendMediaGroup takes: photos and videos together, and audio files and documents each among themselves.
func checkAlbum(field string, t *push.TelegramContent) error {
	if n := len(t.Album); n > 0 && (n < push.MinAlbum || n > push.MaxAlbum) {
		return notification.BadField(field, "has %d media; an album has %d to %d", n, push.MinAlbum, push.MaxAlbum)
	}
	kinds := map[string]string{"photo": "visual", "video": "visual", "audio": "audio", "document": "document"}
	for i, part := range t.Album {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch kind := kinds[part.Type]; {
		case kind == "":
			return notification.BadField(at+".type", "%.40q is none of photo, video, audio, document", part.Type)
		case kind != kinds[t.Album[0].Type]:
			return notification.BadField(at+".type", "%s and %s are not shown in one album: telegram mixes photos and videos only", t.Album[0].Type, part.Type)
		case part.Media == "":
			return notification.BadField(at+".media", "is required: a URL or the id of a file")
		}
		if err := checkMedia(at+".media", part.Media); err != nil {
			return err
		}
	}
	if len(t.Album) > 0 && len(t.Buttons) > 0 {
		return notification.BadField(strings.TrimSuffix(field, "album")+"buttons", albumButtons)
	}
	return nil
}

func checkButtons(field string, rows [][]push.TelegramLink) error {
	n := 0
	for i, row := range rows {
		at := fmt.Sprintf("%s[%d]", field, i)
		if n += len(row); len(row) == 0 || len(row) > maxButtonsInRow || n > maxButtons {
			return notification.BadField(at, "must have 1 to %d buttons, and all rows together at most %d", maxButtonsInRow, maxButtons)
		}
		for j, b := range row {
			at := fmt.Sprintf("%s[%d]", at, j)
			if strings.TrimSpace(b.Text) == "" || len(b.Text) > maxButtonText || !utf8.ValidString(b.Text) {
				return notification.BadField(at+".text", "must be text of 1 to %d bytes", maxButtonText)
			}
			if err := checkTemplate(b.Text); err != nil {
				return notification.BadField(at+".text", "%v", err)
			}
			if err := checkCallback(at, &b); err != nil {
				return err
			}
			if b.Callback != "" {
				continue
			}
			if err := checkButtonURL(b.URL); err != nil {
				return notification.BadField(at+".url", "%v", err)
			}
		}
	}
	return nil
}

// checkCallback checks a button that reports that it was pressed.
func checkCallback(at string, b *push.TelegramLink) error {
	switch {
	case b.Callback == "" && b.Ack:
		return notification.BadField(at+".ack", "needs a callback: only a button that reports can acknowledge")
	case b.Callback == "":
		return nil
	case b.URL != "":
		return notification.BadField(at+".callback", "cannot stand beside url: a button does one of both")
	case len(b.Callback) > press.MaxName:
		return notification.BadField(at+".callback", "has %d bytes; at most %d are allowed", len(b.Callback), press.MaxName)
	}
	return notification.CheckName(at+".callback", b.Callback)
}

// checkButtonURL allows the URLs that Telegram opens: web addresses and its own links.
func checkButtonURL(text string) error {
	if err := checkTemplate(text); err != nil {
		return err
	}
	if strings.HasPrefix(text, "tg://") {
		return nil
	}
	if strings.HasPrefix(text, "/") {
		return fmt.Errorf("must be a whole URL: in a chat there is no site that a path could be of")
	}
	return checkURL(text)
}
