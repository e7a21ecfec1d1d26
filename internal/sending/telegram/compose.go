package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/sending/push"
)

// message is the body of sendMessage, sendPhoto and the like, and of the methods that edit messages.
type message struct {
	ChatID    string       `json:"chat_id"`
	MessageID int64        `json:"message_id,omitempty"` // id of the message to edit
	Thread    int64        `json:"message_thread_id,omitempty"`
	Text      string       `json:"text,omitempty"`
	Photo     string       `json:"photo,omitempty"`
	Video     string       `json:"video,omitempty"`
	Animation string       `json:"animation,omitempty"`
	Audio     string       `json:"audio,omitempty"`
	Document  string       `json:"document,omitempty"`
	Sticker   string       `json:"sticker,omitempty"`
	Media     []inputMedia `json:"media,omitempty"` // of an album
	Caption   string       `json:"caption,omitempty"`
	ParseMode string       `json:"parse_mode,omitempty"`
	Silent    bool         `json:"disable_notification,omitempty"`
	Preview   *linkPreview `json:"link_preview_options,omitempty"`
	Markup    *keyboard    `json:"reply_markup,omitempty"`
}

// inputMedia is one message of an album. Clients show the first one's caption below the whole album.
type inputMedia struct {
	push.TelegramMedia
	Caption   string `json:"caption,omitempty"`
	ParseMode string `json:"parse_mode,omitempty"`
}

type linkPreview struct {
	Disabled bool `json:"is_disabled"`
}

type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

type button struct {
	Text string `json:"text"`
	URL  string `json:"url,omitempty"`
	Data string `json:"callback_data,omitempty"`
}

func keyboardOf(rows [][]push.TelegramLink) *keyboard {
	k := &keyboard{Rows: make([][]button, len(rows))}
	for i, row := range rows {
		for _, b := range row {
			k.Rows[i] = append(k.Rows[i], button{Text: b.Text, URL: b.URL, Data: b.Callback})
		}
	}
	return k
}

// Methods that send a message without one single medium with a caption.
const (
	sendText    = "sendMessage"
	sendAlbum   = "sendMediaGroup"
	sendSticker = "sendSticker"
)

// mediaMethods send the kinds of media, in the order of push.TelegramMediums.
var mediaMethods = [...]string{"sendPhoto", "sendVideo", "sendAnimation", "sendAudio", "sendDocument", sendSticker}

// withMedia adds the message's media and returns the method that sends it.
func (m *message) withMedia(t *push.TelegramContent) (method string, err error) {
	method = sendText
	if len(t.Album) > 0 {
		method = sendAlbum
		for _, part := range t.Album {
			m.Media = append(m.Media, inputMedia{TelegramMedia: part})
		}
	}
	into := []*string{&m.Photo, &m.Video, &m.Animation, &m.Audio, &m.Document, &m.Sticker}
	for i, by := range mediaMethods {
		media := *push.TelegramMediums[i].Of(t)
		if media == "" {
			continue
		}
		if method != sendText {
			return "", errors.New("the message has more than one of photo, video, animation, audio, document, sticker and album")
		}
		method, *into[i] = by, media
	}
	return method, nil
}

// compose makes a message from a content: the title in bold, the body, the link.
func compose(c *push.Content) (method string, m *message, err error) {
	m = &message{ParseMode: c.Telegram.ParseMode, Silent: c.Telegram.Silent}
	if method, err = m.withMedia(&c.Telegram); err != nil {
		return "", nil, err
	}
	if len(c.Telegram.Buttons) > 0 {
		m.Markup = keyboardOf(c.Telegram.Buttons)
	}
	most := maxCaption
	switch method {
	case sendSticker:
		m.ParseMode = ""
		return method, m, nil
	case sendText:
		most = maxText
		if c.Telegram.NoPreview {
			m.Preview = &linkPreview{Disabled: true}
		}
	}
	text, err := m.markup(c, most)
	switch {
	case err != nil:
		return "", nil, err
	case method == sendAlbum:
		m.Media[0].Caption, m.Media[0].ParseMode = text, m.ParseMode
		m.ParseMode = ""
	case method != sendText:
		m.Caption = text
	case text == "":
		return "", nil, errors.New("the message is empty")
	default:
		m.Text = text
	}
	return method, m, nil
}

// markup returns a content's text, of at most most characters, and sets the message's parse mode.
func (m *message) markup(c *push.Content, most int) (string, error) {
	switch c.Telegram.ParseMode {
	case "":
		// The text is sent as HTML so that the title can be bold; we escape all of it.
		if n := units(lines(c.Title, c.Body, c.URL)); n > most {
			return "", fmt.Errorf("the message has %d characters; telegram takes %d", n, most)
		}
		m.ParseMode = "HTML"
		return lines(wrap("<b>", EscapeHTML(c.Title), "</b>"), EscapeHTML(c.Body), EscapeHTML(c.URL)), nil
	case "HTML":
		return lines(wrap("<b>", c.Title, "</b>"), c.Body, EscapeHTML(c.URL)), nil
	case "MarkdownV2":
		return lines(wrap("*", c.Title, "*"), c.Body, EscapeMarkdown(c.URL)), nil
	case "Markdown":
		return lines(wrap("*", c.Title, "*"), c.Body, escapeLegacy(c.URL)), nil
	}
	return "", fmt.Errorf("parse_mode %.32q is none of HTML, MarkdownV2, Markdown", c.Telegram.ParseMode)
}

func wrap(open, text, end string) string {
	if text == "" {
		return ""
	}
	return open + text + end
}

// lines joins title and body, and the link after an empty line.
func lines(title, body, link string) string {
	text := title
	if title != "" && body != "" {
		text += "\n"
	}
	text += body
	if text != "" && link != "" {
		text += "\n\n"
	}
	return text + link
}

// units returns a text's length as Telegram counts it: in UTF-16 code units.
func units(s string) (n int) {
	for _, r := range s {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

// EscapeHTML escapes a text for parse mode HTML.
func EscapeHTML(s string) string { return html.EscapeString(valid(s)) }

// markdownSpecial holds the characters that must be escaped in MarkdownV2 (https://core.telegram.org/bots/api#markdownv2-style).
const markdownSpecial = "_*[]()~`>#+-=|{}.!\\"

// EscapeMarkdown escapes a text for parse mode MarkdownV2.
func EscapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range valid(s) {
		if r < utf8.RuneSelf && strings.ContainsRune(markdownSpecial, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// escapeLegacy escapes a text between the markup of parse mode Markdown
// (https://core.telegram.org/bots/api#markdown-style).
func escapeLegacy(s string) string {
	return strings.NewReplacer("_", "\\_", "*", "\\*", "`", "\\`", "[", "\\[").Replace(valid(s))
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// parseChat reads {"chat_id"}: a number, plain or as a string, or the @name of a public channel. A message_thread_id selects one topic of a
// forum.
func parseChat(address json.RawMessage) (chat string, thread int64, err error) {
	var a struct {
		ChatID json.RawMessage `json:"chat_id"`
		Thread int64           `json:"message_thread_id"`
	}
	if err := json.Unmarshal(address, &a); err != nil {
		return "", 0, errors.New(`is not like {"chat_id":"42"}`)
	}
	text := string(a.ChatID)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(a.ChatID, &text); err != nil {
			return "", 0, errors.New("chat_id is not a number")
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n != 0 {
		return itoa(n), a.Thread, nil
	}
	if name, ok := strings.CutPrefix(text, "@"); ok && name != "" && len(name) <= 64 && !strings.ContainsAny(name, " /\n") {
		return text, a.Thread, nil
	}
	return "", 0, errors.New("chat_id is not a number")
}

// address is the inverse of parseChat for a numeric id.
func address(chat int64) json.RawMessage { return json.RawMessage(`{"chat_id":` + itoa(chat) + `}`) }

// topicAddress returns the address of one topic of a forum.
func topicAddress(chat, thread int64) json.RawMessage {
	return json.RawMessage(`{"chat_id":` + itoa(chat) + `,"message_thread_id":` + itoa(thread) + `}`)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
