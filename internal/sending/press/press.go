// Package press makes and reads the data of buttons that report to this server when somebody presses them. The data names the message, and
// is signed together with the button's own name.
package press

import (
	"context"
	"strings"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// MaxName limits a button's name, in bytes. Telegram carries 64 bytes (https://core.telegram.org/bots/api#inlinekeyboardbutton), of which the
// kind, the signed message and the dot need up to 44.
const MaxName = 20

// Kind is the kind of message below which a button is.
type Kind byte

// Kinds. They are in messages that were sent: append, never change.
const (
	Campaign      Kind = 'c'
	Notification  Kind = 'n'
	Acknowledging Kind = 'a' // below a notification, which it acknowledges
)

// All replaces the names of a message's buttons by their data. The content must have been rendered for this message alone.
func All(c *push.Content, key sealed.Key, kind func(b *push.TelegramLink) Kind, message []byte) {
	for _, row := range c.Telegram.Buttons {
		for i := range row {
			if b := &row[i]; b.Callback != "" {
				k := kind(b)
				b.Callback = string(k) + key.Short(sealed.Press, message, bound(k, b.Callback)) + "." + b.Callback
			}
		}
	}
}

func bound(k Kind, button string) string { return string(k) + button }

// Open reads the data of a pressed button below a message of an app. sealed.ErrBad: this server did not make it.
func Open(ctx context.Context, t *sealed.Tokens, app, data string) (kind Kind, message []byte, button string, err error) {
	if data == "" {
		return 0, nil, "", sealed.ErrBad
	}
	token, button, _ := strings.Cut(data[1:], ".")
	kind = Kind(data[0])
	message, err = t.OpenShort(ctx, app, token, sealed.Press, bound(kind, button))
	return kind, message, button, err
}
