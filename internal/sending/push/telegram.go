package push

// TelegramContent holds fields for Telegram only.
type TelegramContent struct {
	ParseMode string `json:"parse_mode,omitempty"` // HTML, MarkdownV2 or Markdown: the markup of title and body; empty: plain text, which the sender escapes
	Silent    bool   `json:"silent,omitempty"`
	NoPreview bool   `json:"no_preview,omitempty"` // shows no preview of the links in the text
	// At most one of these and Album is set, to a URL or file id; the text becomes its caption.
	Photo     string           `json:"photo,omitempty"`
	Video     string           `json:"video,omitempty"`
	Animation string           `json:"animation,omitempty"`
	Audio     string           `json:"audio,omitempty"`
	Document  string           `json:"document,omitempty"`
	Sticker   string           `json:"sticker,omitempty"` // has no caption: the text is not sent
	Album     []TelegramMedia  `json:"album,omitempty"`   // several media in one frame; each is a message of its own
	Buttons   [][]TelegramLink `json:"buttons,omitempty"` // rows of buttons below the message
}

// Limits of an album (https://core.telegram.org/bots/api#sendmediagroup).
const (
	MinAlbum = 2
	MaxAlbum = 10
)

// TelegramMedia is a part of an album.
type TelegramMedia struct {
	Type  string `json:"type"`  // photo, video, audio or document
	Media string `json:"media"` // a URL or file id
}

// TelegramLink is a button that opens a URL, or reports that somebody pressed it.
type TelegramLink struct {
	Text     string `json:"text"`
	URL      string `json:"url,omitempty"`
	Callback string `json:"callback,omitempty"` // the button's name in the report; in a message to send: the data that Telegram returns
	Ack      bool   `json:"ack,omitempty"`      // the report acknowledges the notification
}

// TelegramMedium is a kind of media of which a message has one at most.
type TelegramMedium struct {
	Name string
	Of   func(*TelegramContent) *string
}

// TelegramMediums are the kinds of media, by the names of their fields.
var TelegramMediums = []TelegramMedium{
	{"photo", func(t *TelegramContent) *string { return &t.Photo }},
	{"video", func(t *TelegramContent) *string { return &t.Video }},
	{"animation", func(t *TelegramContent) *string { return &t.Animation }},
	{"audio", func(t *TelegramContent) *string { return &t.Audio }},
	{"document", func(t *TelegramContent) *string { return &t.Document }},
	{"sticker", func(t *TelegramContent) *string { return &t.Sticker }},
}

// Messages returns the number of messages that the content makes in a chat.
func (t *TelegramContent) Messages() int { return max(len(t.Album), 1) }
