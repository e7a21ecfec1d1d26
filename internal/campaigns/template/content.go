package template

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of a content.
const (
	MaxContentBytes = 32 << 10 // no channel accepts more than 4 KB; the rest is for other languages
	MaxLocales      = 100
)

// Content is a message: texts with variables, and variants of them in other languages.
type Content struct {
	push.Content
	Language string             `json:"language,omitempty"` // BCP 47 tag of the texts here; empty: the language of readers without a matching variant
	Locales  map[string]Variant `json:"locales,omitempty"`  // by BCP 47 tag: fr, fr-CA
}

// Variant replaces the parts of the content that are set in it.
type Variant struct {
	Title    string           `json:"title,omitempty"`
	Body     string           `json:"body,omitempty"`
	Icon     string           `json:"icon,omitempty"`
	Image    string           `json:"image,omitempty"`
	URL      string           `json:"url,omitempty"`
	Data     json.RawMessage  `json:"data,omitempty"`
	Telegram *VariantTelegram `json:"telegram,omitempty"`
	WebPush  *VariantWebPush  `json:"webpush,omitempty"`
}

// VariantTelegram is the part of a Telegram message that is different in one language.
type VariantTelegram struct {
	Buttons [][]push.TelegramLink `json:"buttons,omitempty"`
}

// VariantWebPush is the part of a browser's notification that is different in one language.
type VariantWebPush struct {
	Actions []push.Action `json:"actions,omitempty"`
}

// Check returns an error if the content cannot be sent; in is the name of the field that contains it.
func (t *Content) Check(in string) error { return check(in, t) }

func check(in string, c *Content) error {
	if c.Title == "" && c.Body == "" && c.Telegram.Sticker == "" {
		return notification.BadField(in+".title", "is required, or %s.body: an empty message says nothing", in)
	}
	all, err := json.Marshal(c)
	if err != nil {
		return notification.BadField(in, "%v", err)
	}
	if len(all) > MaxContentBytes {
		return notification.BadField(in, "has %d bytes; at most %d are allowed", len(all), MaxContentBytes)
	}
	if len(c.Locales) > MaxLocales {
		return notification.BadField(in+".locales", "has more than %d languages", MaxLocales)
	}
	if err := checkTelegram(in+".telegram.", &c.Telegram); err != nil {
		return err
	}
	if err := checkActions(in+".webpush.actions", c.WebPush.Actions); err != nil {
		return err
	}
	if err := checkPhones(in+".", &c.Content); err != nil {
		return err
	}
	base := Variant{Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, URL: c.URL, Data: c.Data}
	if err := base.check(in + "."); err != nil {
		return err
	}
	if c.Language != "" && !validTag(c.Language) {
		return notification.BadField(in+".language", "%.40q is not a language tag like fr or fr-CA", c.Language)
	}
	for tag, v := range c.Locales {
		if strings.EqualFold(tag, c.Language) {
			return notification.BadField(in+".locales", "has %s, which is the language of the content itself", tag)
		}
		if !validTag(tag) {
			return notification.BadField(in+".locales", "%q is not a language tag like fr or fr-CA", tag)
		}
		if err := v.check(in + ".locales." + tag + "."); err != nil {
			return err
		}
		if v.Telegram != nil && len(v.Telegram.Buttons) > 0 && len(c.Telegram.Album) > 0 {
			return notification.BadField(in+".locales."+tag+".telegram.buttons", albumButtons)
		}
	}
	return nil
}

// checkActions validates a browser's buttons: a service worker must be able to show and open them, and shows none without a label.
func checkActions(field string, actions []push.Action) error {
	for i, a := range actions {
		at := fmt.Sprintf("%s[%d]", field, i)
		if strings.TrimSpace(a.Title) == "" {
			return notification.BadField(at+".title", "is required: it is what the button says")
		}
		for _, f := range []struct{ name, text string }{{"title", a.Title}, {"url", a.URL}} {
			if err := checkTemplate(f.text); err != nil {
				return notification.BadField(at+"."+f.name, "%v", err)
			}
		}
		if a.URL == "" {
			continue
		}
		if err := checkURL(a.URL); err != nil {
			return notification.BadField(at+".url", "%v", err)
		}
	}
	return nil
}

func (v *Variant) check(prefix string) error {
	for _, f := range []struct{ name, text string }{
		{"title", v.Title}, {"body", v.Body}, {"icon", v.Icon}, {"image", v.Image}, {"url", v.URL},
	} {
		if err := checkTemplate(f.text); err != nil {
			return notification.BadField(prefix+f.name, "%v", err)
		}
	}
	if err := notification.CheckJSON(prefix+"data", v.Data); err != nil {
		return err
	}
	if v.Telegram != nil {
		if err := checkButtons(prefix+"telegram.buttons", v.Telegram.Buttons); err != nil {
			return err
		}
	}
	if v.WebPush != nil {
		if err := checkActions(prefix+"webpush.actions", v.WebPush.Actions); err != nil {
			return err
		}
	}
	if v.URL != "" {
		if err := checkURL(v.URL); err != nil {
			return notification.BadField(prefix+"url", "%v", err)
		}
	}
	return nil
}

// checkURL allows only web addresses, because a click must not run a script. Variables are allowed, except in scheme and host.
func checkURL(text string) error {
	plain, _, _ := strings.Cut(text, "{{")
	u, err := url.Parse(plain)
	if err != nil {
		return fmt.Errorf("is not a URL")
	}
	if u.Scheme == "" && u.Host == "" && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return nil // on the page's own site
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("must be an https or http URL, or a path that begins with /")
	}
	if len(plain) < len(text) && u.Path == "" {
		return fmt.Errorf("must have its host before any variable")
	}
	return nil
}

func validTag(tag string) bool {
	if len(tag) < 2 || len(tag) > 35 {
		return false
	}
	for part := range strings.SplitSeq(tag, "-") {
		if part == "" || len(part) > 8 || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}
