package webhook

import (
	"context"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Hooks posts events; each hook has secrets of its own.
type Hooks struct{ Poster *Poster }

var _ hook.Poster = Hooks{}

// Check returns an error if the URL or the secrets are unusable.
func (h Hooks) Check(url string, secrets []string) error {
	if _, err := CheckURL(url, h.Poster.Targets); err != nil {
		return notification.BadField("url", "%s", err)
	}
	if _, err := ParseSecrets(secrets); err != nil {
		return notification.BadField("secrets", "%s", err)
	}
	return nil
}

// NewSecret makes a secret.
func (Hooks) NewSecret() string { return NewSecret() }

// Post makes one attempt.
func (h Hooks) Post(ctx context.Context, secrets []string, url, id string, body []byte) error {
	parsed, err := ParseSecrets(secrets)
	if err != nil {
		return &push.ConfigError{Reason: err.Error()}
	}
	return h.Poster.Post(ctx, parsed, url, id, body)
}
