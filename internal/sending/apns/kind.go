package apns

import (
	"net/http"
	"regexp"
	"sync"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Names of the channel's settings.
const (
	FieldKey         = "private_key"
	FieldKeyID       = "key_id"
	FieldTeamID      = "team_id"
	FieldTopic       = "topic"
	FieldEnvironment = "environment"
	FieldBaseURL     = "base_url"
)

// Kind makes senders from an app's APNs settings. Without a Client, each app's sender has connections of its own, since Apple binds a
// connection to one team.
type Kind struct {
	Client  *http.Client
	Targets urlguard.Targets // to which URLs of the settings may lead
}

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldKey, Secret: true, Lines: true, Help: "the .p8 file of a key for APNs, from developer.apple.com: Certificates, Identifiers & Profiles, Keys"},
		{Name: FieldKeyID, Help: "the key's id: 10 letters and digits, as in the name AuthKey_ABC123DEFG.p8"},
		{Name: FieldTeamID, Help: "the team's id: 10 letters and digits, from Membership details"},
		{Name: FieldTopic, Help: "the app's bundle id, like org.example.shop"},
		{Name: FieldEnvironment, Help: "production, or sandbox for apps from Xcode; absent: production"},
		{Name: FieldBaseURL, Address: true, Help: "another server in Apple's place; absent: Apple's of the environment"},
		channel.Badge,
	}
}

// Auto returns false: a key is needed.
func (Kind) Auto() bool { return false }

var (
	idForm    = regexp.MustCompile(`^[A-Z0-9]{10}$`)
	topicForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,254}$`) })
)

// Complete checks the settings.
func (k Kind) Complete(v channel.Values) (channel.Values, error) {
	for _, f := range []struct {
		name, what string
		form       *regexp.Regexp
		like       string
	}{
		{FieldKeyID, "the id of the key", idForm, "10 capital letters and digits, as in AuthKey_ABC123DEFG.p8"},
		{FieldTeamID, "the id of the team", idForm, "10 capital letters and digits"},
		{FieldTopic, "the app's bundle id", topicForm(), "a bundle id like org.example.shop"},
	} {
		switch {
		case v[f.name] == "":
			return nil, notification.BadField(f.name, "is required: %s", f.what)
		case !f.form.MatchString(v[f.name]):
			return nil, notification.BadField(f.name, "is not %s", f.like)
		}
	}
	if v[FieldKey] == "" {
		return nil, notification.BadField(FieldKey, "is required: the .p8 file of a key for APNs, from developer.apple.com")
	}
	if _, err := ParseKey(v[FieldKey]); err != nil {
		return nil, notification.BadField(FieldKey, "%s", err)
	}
	switch v[FieldEnvironment] {
	case "", Production, Sandbox:
	default:
		return nil, notification.BadField(FieldEnvironment, "is none of production, sandbox")
	}
	if u := v[FieldBaseURL]; u != "" {
		if _, err := parseServer(u, k.Targets); err != nil {
			return nil, notification.BadField(FieldBaseURL, "%s", err)
		}
	}
	return nil, nil
}

// Shown adds nothing.
func (Kind) Shown(channel.Values) map[string]string { return nil }

// Open makes a sender.
func (k Kind) Open(_ string, v channel.Values) (push.Sender, error) {
	key, err := ParseKey(v[FieldKey])
	if err != nil {
		return nil, err
	}
	return New(Config{
		Key: key, KeyID: v[FieldKeyID], TeamID: v[FieldTeamID], Topic: v[FieldTopic], Environment: v[FieldEnvironment],
		BaseURL: v[FieldBaseURL], Targets: k.Targets, Client: k.Client,
	})
}
