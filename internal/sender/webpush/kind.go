package webpush

import (
	"net/http"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
)

// Names of the channel's settings.
const (
	FieldSubject = "subject"
	FieldKey     = "private_key"
	FieldPublic  = "public_key" // shown, not set
)

// Kind is what an app's Web Push settings mean. Without a Client each app's sender has connections of its own.
type Kind struct {
	Client       *http.Client
	AllowPrivate bool
	Server       string // public URL of this server; empty: service workers know it
}

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldSubject, Help: "contact for push services, like mailto:you@example.org; Apple's demands one"},
		{Name: FieldKey, Secret: true, Lines: true, Help: "VAPID private key: base64url, PEM or the JSON of web-push; made if absent. Another key cuts off all who have subscribed"},
	}
}

// Auto reports that it works at once: a key is made.
func (Kind) Auto() bool { return true }

// Complete makes a key where none is given, and keeps one that is in one form.
func (Kind) Complete(v channel.Values) (channel.Values, error) {
	if err := CheckSubject(v[FieldSubject]); err != nil {
		return nil, notification.BadField(FieldSubject, "%s", err)
	}
	key, err := keyIn(v)
	if err != nil {
		return nil, notification.BadField(FieldKey, "%s", err)
	}
	v[FieldKey] = key.Private()
	return nil, nil
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
	return New(Config{Key: key, Subject: v[FieldSubject], Server: k.Server, AllowPrivate: k.AllowPrivate, Client: k.Client})
}
