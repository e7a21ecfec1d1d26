package admin

import (
	"strings"

	"godwit.dev/godwit/internal/sending/push"
)

// channelWords are what people call the channels.
var channelWords = map[push.Channel]string{
	push.WebPush: "Browsers", push.FCM: "Android and Firebase", push.APNs: "Apple devices", push.Telegram: "Telegram", push.Webhook: "Webhook", push.Live: "Live",
	push.LiveActivityStart: "Start of Live Activities", push.LiveActivity: "Live Activities",
}

// channelWord returns what people call a channel; channels of modules have their own name.
func channelWord(ch push.Channel) string {
	if word, ok := channelWords[ch]; ok {
		return word
	}
	return string(ch)
}

// fieldWords are what people call the settings of channels.
var fieldWords = map[string]string{
	"subject": "Contact", "private_key": "Private key", "public_key": "Public key", "title": "Title of messages without one", "icon": "Icon of messages without one",
	"url": "Page that messages lead to", "welcome": "Template of the greeting", "own_service": "This server’s push service", "service_account": "Service account’s file", "base_url": "Another server", "key_id": "Key’s id",
	"team_id": "Team’s id", "topic": "Bundle id of the app", "environment": "Environment", "token": "Bot’s token", "updates": "Listen to the bot", "secrets": "Signing secrets", "targets": "URLs for steps", "badge": "Number on the app’s icon",
}

// fieldWord returns what people call a setting.
func fieldWord(name string) string {
	if word, ok := fieldWords[name]; ok {
		return word
	}
	return upperFirst(strings.ReplaceAll(name, "_", " "))
}
