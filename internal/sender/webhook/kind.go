package webhook

import (
	"strings"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
)

// FieldSecrets is the setting that holds the signing secrets.
const FieldSecrets = "secrets"

// Kind is what an app's webhook settings mean. Each app's sender has connections of its own: where another app's receivers
// hang, at the same host too, it does not wait for them.
type Kind struct{ AllowPrivate bool }

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldSecrets, Type: channel.List, Secret: true, Help: "signing secrets, whsec_ and base64; several while receivers change over; one is made, and shown once, if there is none"},
	}
}

// Auto reports that somebody must see the secret first.
func (Kind) Auto() bool { return false }

// Complete makes a secret where none is given.
func (Kind) Complete(v channel.Values) (made channel.Values, err error) {
	if v[FieldSecrets] == "" {
		secret := NewSecret()
		v[FieldSecrets] = secret
		return channel.Values{FieldSecrets: secret}, nil
	}
	if _, err := ParseSecrets(strings.Fields(v[FieldSecrets])); err != nil {
		return nil, notification.BadField(FieldSecrets, "%s", err)
	}
	return nil, nil
}

// Shown adds nothing.
func (Kind) Shown(channel.Values) map[string]string { return nil }

// Open makes a sender.
func (k Kind) Open(_ string, v channel.Values) (push.Sender, error) {
	secrets, err := ParseSecrets(strings.Fields(v[FieldSecrets]))
	if err != nil {
		return nil, err
	}
	return New(NewPoster(provider.Client(k.AllowPrivate), k.AllowPrivate), secrets)
}
