package template

import (
	"errors"
	"fmt"
	"html"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Person is the reader for whom a message is rendered.
type Person struct {
	Recipient  string
	Locale     string
	Attributes audience.Attributes
	Variables  Variables // values for all recipients; they take precedence over attributes
}

// Render returns the content for one person: the variant in their language, with variables filled in and the UTM suffix on its URLs. For
// Telegram with a parse mode, it escapes attributes' values, because they are text and not markup.
func (t *Content) Render(p Person, ch push.Channel, utm string) push.Content {
	c := t.Content
	if v, ok := t.variant(p.Locale); ok {
		override(&c, v)
	}
	title, body := escapesFor(ch, c.Telegram.ParseMode)
	c.Title, c.Body = fill(c.Title, p, title), fill(c.Body, p, body)
	c.Icon, c.Image = link(c.Icon, p), link(c.Image, p)
	utm = link(utm, p)
	c.URL = withUTM(link(c.URL, p), utm)
	for _, m := range push.TelegramMediums {
		media := m.Of(&c.Telegram)
		*media = link(*media, p)
	}
	c.Telegram.Album = album(c.Telegram.Album, p)
	c.Telegram.Buttons = buttons(c.Telegram.Buttons, p, utm)
	if len(c.WebPush.Actions) > 0 {
		actions := make([]push.Action, len(c.WebPush.Actions))
		for i, a := range c.WebPush.Actions {
			a.Title = fill(a.Title, p, nil)
			a.URL = withUTM(link(a.URL, p), utm)
			actions[i] = a
		}
		c.WebPush.Actions = actions
	}
	return c
}

// album renders the media of an album of Telegram.
func album(parts []push.TelegramMedia, p Person) []push.TelegramMedia {
	if len(parts) == 0 {
		return nil
	}
	all := make([]push.TelegramMedia, len(parts))
	for i, part := range parts {
		all[i] = push.TelegramMedia{Type: part.Type, Media: link(part.Media, p)}
	}
	return all
}

// buttons renders the buttons below a message of Telegram.
func buttons(rows [][]push.TelegramLink, p Person, utm string) [][]push.TelegramLink {
	if len(rows) == 0 {
		return nil
	}
	all := make([][]push.TelegramLink, len(rows))
	for i, row := range rows {
		all[i] = make([]push.TelegramLink, len(row))
		for j, b := range row {
			b.Text, b.URL = fill(b.Text, p, nil), withUTM(link(b.URL, p), utm)
			all[i][j] = b
		}
	}
	return all
}

func override(c *push.Content, v Variant) {
	for _, f := range []struct {
		to   *string
		text string
	}{{&c.Title, v.Title}, {&c.Body, v.Body}, {&c.Icon, v.Icon}, {&c.Image, v.Image}, {&c.URL, v.URL}} {
		if f.text != "" {
			*f.to = f.text
		}
	}
	if len(v.Data) > 0 {
		c.Data = v.Data
	}
	if v.Telegram != nil && len(v.Telegram.Buttons) > 0 {
		c.Telegram.Buttons = v.Telegram.Buttons
	}
	if v.WebPush != nil && len(v.WebPush.Actions) > 0 {
		c.WebPush.Actions = v.WebPush.Actions
	}
}

// escapesFor returns the functions that escape an attribute's text in a channel's markup, for the title and for the body.
func escapesFor(ch push.Channel, mode string) (title, body func(string) string) {
	if ch != push.Telegram {
		return nil, nil
	}
	switch mode {
	case "HTML":
		return html.EscapeString, html.EscapeString
	case "MarkdownV2":
		return escapeMarkdown, escapeMarkdown
	case "Markdown":
		return legacyBold.Replace, legacyText.Replace
	}
	return nil, nil // the sender sends plain text
}

// Characters with a meaning in parse mode Markdown (core.telegram.org/bots/api#markdown-style). They cannot be escaped inside an entity, so
// in the title, which is bold, the entity ends before each such character and begins again after it.
var (
	legacyText = strings.NewReplacer("_", `\_`, "*", `\*`, "`", "\\`", "[", `\[`)
	legacyBold = strings.NewReplacer("_", `*\_*`, "*", `*\**`, "`", "*\\`*", "[", `*\[*`)
)

// escapeMarkdown escapes the characters with a meaning in MarkdownV2 (core.telegram.org/bots/api#markdownv2-style).
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("_*[]()~`>#+-=|{}.!\\", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// checkTemplate returns an error if a text contains malformed variables.
func checkTemplate(text string) error {
	for {
		_, rest, ok := strings.Cut(text, "{{")
		if !ok {
			return nil
		}
		name, after, ok := strings.Cut(rest, "}}")
		if !ok {
			return errors.New("has {{ without }}")
		}
		key, _, _ := strings.Cut(name, "|")
		if key = strings.TrimSpace(key); !variableName(key) {
			return fmt.Errorf("%.60q is not the name of an attribute; write {{name}} or {{name|what to say without one}}", key)
		}
		text = after
	}
}

func variableName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// fill replaces {{name|otherwise}} by the person's attribute. It applies escape, which may be nil, to attributes' values, never to the
// author's own text.
func fill(text string, p Person, escape func(string) string) string {
	return fillWith(text, p, escape, nil)
}

// fillWith is fill, with a function that escapes the author's alternative text for a missing attribute.
func fillWith(text string, p Person, escape, escapeOtherwise func(string) string) string {
	at := strings.Index(text, "{{")
	if at < 0 {
		return text
	}
	var b strings.Builder
	for at >= 0 {
		end := strings.Index(text[at:], "}}")
		if end < 0 {
			break
		}
		b.WriteString(text[:at])
		name, otherwise, _ := strings.Cut(text[at+2:at+end], "|")
		value, escape := p.value(strings.TrimSpace(name)), escape
		if value == "" {
			value, escape = otherwise, escapeOtherwise
		}
		if escape != nil {
			value = escape(value)
		}
		b.WriteString(value)
		text = text[at+end+2:]
		at = strings.Index(text, "{{")
	}
	b.WriteString(text)
	return b.String()
}

// Says reports whether a variable has a value.
func (p *Person) Says(name string) bool {
	_, given := p.Variables[name]
	return given || p.value(name) != ""
}

// value returns the value of a variable or an attribute as text; "" if there is none.
func (p Person) value(name string) string {
	if v, ok := p.Variables[name]; ok {
		return v
	}
	if v, ok := p.Attributes[name]; ok {
		return v.String()
	}
	switch name {
	case "recipient":
		return p.Recipient
	case "locale":
		return p.Locale
	}
	return ""
}
