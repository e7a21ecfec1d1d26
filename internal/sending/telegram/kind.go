package telegram

import (
	"net/http"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Names of the channel's settings.
const (
	FieldToken   = "token"
	FieldBaseURL = "base_url"
	FieldUpdates = "updates"
)

// Kind makes senders from an app's Telegram settings. Without a Client each app's sender has connections of its own.
type Kind struct {
	Client  *http.Client
	Targets urlguard.Targets // to which URLs of the settings may lead
}

var _ channel.Kind = Kind{}

// Fields are the settings.
func (Kind) Fields() []channel.Field {
	return []channel.Field{
		{Name: FieldToken, Secret: true, Help: "the bot's token, from @BotFather"},
		{Name: FieldBaseURL, Address: true, Help: "a Bot API server of your own, which may be http://localhost:8081; absent: " + DefaultURL},
		{Name: FieldUpdates, Type: channel.Bool, Help: "true: listen to the bot's messages, so that /start subscribes, /stop unsubscribes and buttons report"},
	}
}

// Auto returns false: the channel needs a token.
func (Kind) Auto() bool { return false }

// Complete checks the settings.
func (k Kind) Complete(v channel.Values) (channel.Values, error) {
	if v[FieldToken] == "" {
		return nil, notification.BadField(FieldToken, "is required: the bot's token from @BotFather")
	}
	if !tokenForm().MatchString(v[FieldToken]) {
		return nil, notification.BadField(FieldToken, "is not like 123456:ABC-DEF")
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
	return New(Config{
		Token: v[FieldToken], BaseURL: v[FieldBaseURL], Listens: v[FieldUpdates] != "", Targets: k.Targets, Client: k.Client,
	})
}
