package template

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Message is the content that push channels get for a notification made from a template: it is rendered for each endpoint in its language.
type Message struct {
	Content   Content   `json:"content"`
	Variables Variables `json:"variables,omitempty"`
	Locale    string    `json:"locale,omitempty"`   // of who has none
	OwnData   bool      `json:"own_data,omitempty"` // the notification has its own data instead of the template's
	Plain     bool      `json:"plain,omitempty"`    // there is no template: the texts are as the publisher wrote them
}

// ReadMessage decodes a Message from a notification's content.
func ReadMessage(b []byte) (*Message, error) {
	m := new(Message)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("what push channels get of a notification is damaged: %w", err)
	}
	return m, nil
}

// Render returns the content for one recipient.
func (m *Message) Render(recipient, locale string, ch push.Channel) push.Content {
	if m.Plain {
		return m.Content.Content
	}
	if locale == "" {
		locale = m.Locale
	}
	return m.Content.Render(Person{Recipient: recipient, Locale: locale, Variables: m.Variables}, ch, "")
}

// Fill sets the content of a draft that names a template. Variables must contain each variable that the template uses without a default in
// any language.
func (s *Service) Fill(ctx context.Context, app string, d *notification.Draft) error {
	if d.Template == "" {
		return fillPhones(d)
	}
	for _, f := range []struct{ name, text string }{{"title", d.Content.Title}, {"body", d.Content.Body}, {"category", d.Content.Category}} {
		if f.text != "" {
			return notification.BadField(f.name, "is what the template says; leave it out, or the template")
		}
	}
	given := Variables(d.Variables)
	if err := given.Check("variables"); err != nil {
		return err
	}
	if d.Locale != "" && !validTag(d.Locale) {
		return notification.BadField("locale", "%.40q is not a language tag like fr or fr-CA", d.Locale)
	}
	d.Content.Key = keyOf(d, given) // before the template's content: the key identifies a repeated publish, even if the template has changed since
	r, err := s.use(ctx, app, d.Template, "template")
	if err != nil {
		return err
	}
	t := r.t
	if name := r.uses.missing(given); name != "" {
		return notification.LapsedField("variables."+name, "is missing: template %s says {{%s}}", t.Name, name)
	}
	if err := r.uses.checkFilled("variables", given); err != nil {
		return err
	}
	return t.Content.FillDraft(d, given)
}

// FillDraft sets a draft's content for sessions and, if the draft has steps beyond live, for push channels. The caller has checked the variables.
func (t *Content) FillDraft(d *notification.Draft, given Variables) (err error) {
	m := Message{Content: *t, Variables: given, Locale: d.Locale, OwnData: len(d.Content.Data) > 0}
	if len(d.Phones) > 0 {
		err = readPhones(d, &m.Content.Content)
	} else {
		err = needsActivity(d, &m.Content.Content)
	}
	if err != nil {
		return err
	}
	live := m.Render("", "", push.Live)
	if m.OwnData {
		m.Content = withoutData(m.Content)
	} else if d.Content.Data = live.DataWithLinks(); len(d.Content.Data) > 0 {
		d.Content.ContentType = "application/json"
	}
	d.Content.Title, d.Content.Body, d.Content.Category = live.Title, live.Body, live.Category
	if escalates(d) {
		if d.Content.Push, err = json.Marshal(m); err != nil {
			return fmt.Errorf("fill in a template: %w", err)
		}
	}
	return nil
}

// withoutData returns a content without data, for publishes whose own data replaces the template's.
func withoutData(c Content) Content {
	c.Data = nil
	all := make(map[string]Variant, len(c.Locales))
	for tag, v := range c.Locales {
		v.Data = nil
		all[tag] = v
	}
	c.Locales = all
	return c
}

// keyOf returns the key that must be equal for two publishes of one id: it covers the publisher's input, not the template's revision.
func keyOf(d *notification.Draft, given Variables) string {
	b, _ := json.Marshal(struct {
		Template, Locale string
		Variables        Variables
		Data             []byte
		Phones           json.RawMessage `json:",omitempty"`
	}{d.Template, d.Locale, given, d.Content.Data, d.Phones}) // texts, and JSON that was read
	sum := sha256.Sum256(b)
	return string(sum[:])
}
