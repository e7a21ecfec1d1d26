package webhook

import (
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// FieldSecrets is the setting that holds the signing secrets.
const FieldSecrets = "secrets"

// fieldTargets is the setting with named URLs: an escalation's step may go to one of them instead of a recipient's endpoints.
const fieldTargets = "targets"

// Kind makes senders from an app's webhook settings. Each app's sender has its own connections, so that it never waits for another app's
// hanging receivers, even at the same host.
type Kind struct{ Targets urlguard.Targets }

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldSecrets, Type: channel.List, Secret: true, Help: "signing secrets, whsec_ and base64; several while receivers change over; one is made, and shown once, if there is none"},
		{Name: fieldTargets, Type: channel.List, Help: "URLs of yours to which steps of escalations may go in the place of the recipient's endpoints, each as name=URL"},
	}
}

// Auto is false, since a person must see the secret first.
func (Kind) Auto() bool { return false }

// Complete makes a secret where none is given.
func (k Kind) Complete(v channel.Values) (made channel.Values, err error) {
	if _, err := k.targets(v); err != nil {
		return nil, err
	}
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
	targets, err := k.targets(v)
	if err != nil {
		return nil, err
	}
	reach := k.Targets.Written() // who has registered an endpoint is not known any more when it is dialled
	return New(NewPoster(provider.Client(reach), reach), secrets, targets)
}

// targets reads the setting of targets: URLs by name.
func (k Kind) targets(v channel.Values) (map[string]string, error) {
	targets := make(map[string]string)
	for i, one := range strings.Fields(v[fieldTargets]) {
		field := fmt.Sprintf("%s[%d]", fieldTargets, i)
		name, to, ok := strings.Cut(one, "=")
		if !ok {
			return nil, notification.BadField(field, "is not like sms=https://example.org/sms")
		}
		if err := notification.CheckName(field, name); err != nil {
			return nil, err
		}
		if _, err := CheckURL(to, k.Targets); err != nil {
			return nil, notification.BadField(field, "%s", err)
		}
		if targets[name] != "" {
			return nil, notification.BadField(field, "names %s a second time", name)
		}
		targets[name] = to
	}
	return targets, nil
}
