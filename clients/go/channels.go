package godwit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Channel is the part of a channel's settings that is not secret.
type Channel struct {
	Channel     string         `json:"channel"`
	Configured  bool           `json:"configured"`
	Enabled     bool           `json:"enabled"`
	Settings    map[string]any `json:"settings"`
	Credentials []string       `json:"credentials"` // names of the credentials that are set
	UpdatedAt   time.Time      `json:"updated_at"`
}

const channelsPath = "/v1/channels"

// Channels lists the app's channels, including those that are not set up.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	var page struct {
		Items []Channel `json:"items"`
	}
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: channelsPath}, nil, &page); err != nil {
		return nil, fmt.Errorf("list channels: %w", err)
	}
	return page.Items, nil
}

// ChannelTest is the provider's answer to a test of a channel.
type ChannelTest struct {
	OK      bool   `json:"ok"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// SetChannel sets up a channel of the app. It needs role admin.
func (c *Client) SetChannel(ctx context.Context, channel string, settings map[string]any) error {
	if err := c.doJSON(ctx, request{method: http.MethodPut, path: channelPath(channel)}, settings, nil); err != nil {
		return fmt.Errorf("set up channel %s: %w", channel, err)
	}
	return nil
}

// TestChannel tests a channel's credentials. With an address, in the form of the channel's endpoints, it also sends a message there. It
// needs role admin.
func (c *Client) TestChannel(ctx context.Context, channel string, address json.RawMessage) (ChannelTest, error) {
	var done ChannelTest
	body := map[string]any{}
	if len(address) > 0 {
		body["address"] = address
	}
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: channelPath(channel) + "/test"}, body, &done); err != nil {
		return done, fmt.Errorf("test channel %s: %w", channel, err)
	}
	return done, nil
}

// DeleteChannel deletes a channel's settings and credentials. It needs role admin.
func (c *Client) DeleteChannel(ctx context.Context, channel string) error {
	if _, err := c.do(ctx, request{method: http.MethodDelete, path: channelPath(channel)}); err != nil {
		return fmt.Errorf("delete channel %s: %w", channel, err)
	}
	return nil
}

func channelPath(channel string) string { return pathTo("channels", channel) }
