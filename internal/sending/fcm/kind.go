package fcm

import (
	"net/http"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Names of the channel's settings.
const (
	FieldAccount = "service_account"
	FieldBaseURL = "base_url"
	FieldProject = "project"      // shown, not set
	FieldEmail   = "client_email" // shown, not set
)

// Kind makes senders from an app's FCM settings. Without a Client, each app's sender has connections of its own.
type Kind struct {
	Client  *http.Client
	Targets urlguard.Targets // to which URLs of the settings may lead
}

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldAccount, Secret: true, Lines: true, Help: "JSON file of a service account: Firebase console, Project settings, Service accounts, Generate new private key"},
		{Name: FieldBaseURL, Address: true, Help: "another server that speaks FCM's HTTP v1; absent: " + DefaultURL},
		channel.Badge,
	}
}

// Auto returns false: a service account is needed.
func (Kind) Auto() bool { return false }

// Complete checks the settings.
func (k Kind) Complete(v channel.Values) (channel.Values, error) {
	if v[FieldAccount] == "" {
		return nil, notification.BadField(FieldAccount, "is required: the JSON file of a service account, from the Firebase console, Project settings, Service accounts")
	}
	if _, err := ParseAccount([]byte(v[FieldAccount]), k.Targets); err != nil {
		return nil, notification.BadField(FieldAccount, "%s", err)
	}
	if u := v[FieldBaseURL]; u != "" {
		if _, err := k.Targets.ParseBase(u); err != nil {
			return nil, notification.BadField(FieldBaseURL, "%s", err)
		}
	}
	return nil, nil
}

// Shown returns the account's project and address.
func (k Kind) Shown(v channel.Values) map[string]string {
	a, err := ParseAccount([]byte(v[FieldAccount]), k.Targets)
	if err != nil {
		return nil
	}
	return map[string]string{FieldProject: a.Project, FieldEmail: a.Email}
}

// Open makes a sender.
func (k Kind) Open(_ string, v channel.Values) (push.Sender, error) {
	a, err := ParseAccount([]byte(v[FieldAccount]), k.Targets)
	if err != nil {
		return nil, err
	}
	return New(Config{Account: a, BaseURL: v[FieldBaseURL], Targets: k.Targets, Client: k.Client})
}
