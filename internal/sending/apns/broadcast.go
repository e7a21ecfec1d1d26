package apns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// managers are the servers that manage broadcast channels
// (developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns).
var managers = map[string]string{
	Production: "https://api-manage-broadcast.push.apple.com:2196", Sandbox: "https://api-manage-broadcast.sandbox.push.apple.com:2195",
}

// Reasons of answers about broadcast channels
// (developer.apple.com/documentation/usernotifications/handling-error-responses-from-apns).
const (
	badChannel     = "BadChannelId"
	noChannel      = "ChannelNotRegistered"
	tooManyChannel = "CannotCreateChannelConfig"
	notEnabled     = "FeatureNotEnabled"
)

const headerChannel = "apns-channel-id"

var _ push.Broadcaster = (*Sender)(nil)

// channelConfig is how Apple describes a broadcast channel.
type channelConfig struct {
	Policy int    `json:"message-storage-policy"` // 1: the latest message is kept; 0: none is
	Type   string `json:"push-type"`
}

// CreateBroadcast implements push.Broadcaster.
func (s *Sender) CreateBroadcast(ctx context.Context, keep bool) (id string, err error) {
	config := channelConfig{Type: "LiveActivity"}
	if keep {
		config.Policy = 1
	}
	got, err := s.manage(ctx, http.MethodPost, "", &config, http.StatusCreated)
	if err != nil {
		return "", err
	}
	if id = got.Header.Get(headerChannel); push.CheckBroadcastID("", id) != nil {
		return "", &push.UnknownError{Reason: "APNs made a broadcast channel and named no id"}
	}
	return id, nil
}

// FindBroadcast implements push.Broadcaster.
func (s *Sender) FindBroadcast(ctx context.Context, id string) (keep bool, err error) {
	got, err := s.manage(ctx, http.MethodGet, id, nil, http.StatusOK)
	if err != nil {
		return false, err
	}
	var config channelConfig
	if json.Unmarshal(got.Body, &config) != nil {
		return false, &push.RetryError{Scope: s.scope, Reason: "APNs described the broadcast channel in a form that cannot be read"}
	}
	return config.Policy == 1, nil
}

// DeleteBroadcast implements push.Broadcaster.
func (s *Sender) DeleteBroadcast(ctx context.Context, id string) error {
	_, err := s.manage(ctx, http.MethodDelete, id, nil, http.StatusNoContent)
	return err
}

// manage makes a request about a channel, with a new token if APNs finds ours too old.
func (s *Sender) manage(ctx context.Context, method, id string, config *channelConfig, want int) (provider.Answer, error) {
	token, err := s.signer.token(s.cfg.Now())
	if err != nil {
		return provider.Answer{}, &push.ConfigError{Scope: s.scope, Reason: err.Error()}
	}
	got, err := s.manageWith(ctx, method, id, config, token)
	if err != nil {
		return got, err
	}
	a := readAnswer(&got, s.cfg.Now())
	if a.reason == expiredToken {
		if token, err = s.signer.renew(token, s.cfg.Now()); err != nil {
			return got, &push.ConfigError{Scope: s.scope, Reason: a.says(err.Error())}
		}
		if got, err = s.manageWith(ctx, method, id, config, token); err != nil {
			return got, err
		}
		a = readAnswer(&got, s.cfg.Now())
	}
	if got.Status == want {
		return got, nil
	}
	if err := s.judge(a, &message{scope: s.scope + activityTopic}); err != nil {
		return got, err
	}
	return got, &push.RetryError{Scope: s.scope, Reason: fmt.Sprintf("APNs answered %d instead of %d", got.Status, want)}
}

func (s *Sender) manageWith(ctx context.Context, method, id string, config *channelConfig, token string) (provider.Answer, error) {
	var body io.Reader
	if config != nil {
		text, err := json.Marshal(config)
		if err != nil {
			return provider.Answer{}, err
		}
		body = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, provider.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.manager+"/1/apps/"+s.cfg.Topic+"/channels", body)
	if err != nil {
		return provider.Answer{}, fmt.Errorf("ask APNs about a broadcast channel: %w", err)
	}
	req.Header.Set("Authorization", "bearer "+token)
	if id != "" {
		req.Header.Set(headerChannel, id)
	}
	if config != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return provider.Do(s.cfg.Client, req, name, s.scope)
}
