package webpush

import (
	"net/http"
	"net/url"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Names of the channel's settings.
const (
	FieldSubject = "subject"
	FieldKey     = "private_key"
	FieldPublic  = "public_key" // shown, not set
	FieldTitle   = "title"
	FieldIcon    = "icon"
	FieldURL     = "url"
	FieldWelcome = "welcome"
	FieldOwn     = "own_service"
)

// Kind makes senders from an app's Web Push settings. Without a Client each app's sender has connections of its own.
type Kind struct {
	Client  *http.Client
	Targets urlguard.Targets // to which browsers' endpoints may lead
	Server  string           // public URL of this server; empty: service workers find it themselves
	Own     *Own             // the push service of this server; nil: it has none
}

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldSubject, Help: "contact for push services, like mailto:you@example.org; Apple's demands one"},
		{Name: FieldKey, Secret: true, Lines: true, Help: "VAPID private key: base64url, PEM or the JSON of web-push; made if absent. Another key cuts off all who have subscribed"},
		{Name: FieldTitle, Help: "title of messages that have none"},
		{Name: FieldIcon, Help: "URL of the icon of messages that have none"},
		{Name: FieldURL, Help: "where messages lead that do not say it"},
		{Name: FieldWelcome, Help: "name of the template that a browser is sent when it subscribes for the first time; absent: it is sent nothing"},
		{Name: FieldOwn, Type: channel.Bool, Help: "true: messages to subscribers of this server's own push service go there without the network, and its address may be private"},
	}
}

// Auto returns true: the channel works at once, with a generated key.
func (Kind) Auto() bool { return true }

// Complete makes a key where none is given, and stores a given key in one form.
func (k Kind) Complete(v channel.Values) (channel.Values, error) {
	if err := CheckSubject(v[FieldSubject]); err != nil {
		return nil, notification.BadField(FieldSubject, "%s", err)
	}
	if err := checkDefaults(v); err != nil {
		return nil, err
	}
	if v[FieldOwn] != "" {
		if why := k.Own.unusable(); why != "" {
			return nil, notification.BadField(FieldOwn, "cannot be true: %s", why)
		}
	}
	key, err := keyIn(v)
	if err != nil {
		return nil, notification.BadField(FieldKey, "%s", err)
	}
	v[FieldKey] = key.Private()
	return nil, nil
}

// Limits of the defaults, which must leave room for a message's own text.
const (
	maxDefaultTitle = 200
	maxDefaultURL   = 500
)

func checkDefaults(v channel.Values) error {
	if n := len(v[FieldTitle]); n > maxDefaultTitle {
		return notification.BadField(FieldTitle, "has %d bytes; at most %d are allowed", n, maxDefaultTitle)
	}
	if name := v[FieldWelcome]; name != "" {
		if err := notification.CheckName(FieldWelcome, name); err != nil {
			return err
		}
	}
	for _, name := range []string{FieldIcon, FieldURL} {
		link := v[name]
		if link == "" {
			continue
		}
		u, err := url.Parse(link)
		switch {
		case len(link) > maxDefaultURL:
			return notification.BadField(name, "has %d bytes; at most %d are allowed", len(link), maxDefaultURL)
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
			return notification.BadField(name, "%.60q is not the URL of a web page or picture: write it with https://", link)
		}
	}
	return nil
}

func keyIn(v channel.Values) (*Key, error) {
	if v[FieldKey] == "" {
		return NewKey()
	}
	return ParseKey([]byte(v[FieldKey]))
}

// Shown is the public key.
func (Kind) Shown(v channel.Values) map[string]string {
	key, err := ParseKey([]byte(v[FieldKey]))
	if err != nil {
		return nil
	}
	return map[string]string{FieldPublic: key.Public()}
}

// Open makes a sender.
func (k Kind) Open(_ string, v channel.Values) (push.Sender, error) {
	key, err := ParseKey([]byte(v[FieldKey]))
	if err != nil {
		return nil, err
	}
	cfg := Config{Key: key, Subject: v[FieldSubject], Server: k.Server, Defaults: Defaults{Title: v[FieldTitle], Icon: v[FieldIcon], URL: v[FieldURL]}, Targets: k.Targets, Client: k.Client}
	if v[FieldOwn] != "" {
		cfg.Own = k.Own
	}
	return New(cfg)
}
