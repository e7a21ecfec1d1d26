package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
	"godwit.dev/godwit/internal/push"
)

// Channels are an app's ways to reach people outside.
type Channels interface {
	List(app string) []channel.Info
	Get(app string, ch push.Channel) (channel.Info, error)
	Fields(ch push.Channel) ([]channel.Field, error)
	// Set changes settings; what had to be made is returned this once.
	Set(ctx context.Context, app string, ch push.Channel, change channel.Change) (channel.Info, channel.Values, error)
	Delete(ctx context.Context, app string, ch push.Channel) error
	Check(ctx context.Context, app string, ch push.Channel) (about string, err error)
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
	WebPushKey(ctx context.Context, app string) (string, error)
}

const (
	maxChannelBody = 32 << 10 // a key in PEM has 300 bytes
	maxTestBody    = 16 << 10
)

type channelJSON struct {
	Channel     push.Channel   `json:"channel"`
	Configured  bool           `json:"configured"`
	Enabled     bool           `json:"enabled"`
	Settings    map[string]any `json:"settings"`
	Credentials []string       `json:"credentials"` // names of those that are set
	UpdatedAt   moment         `json:"updated_at"`
	// Made are secrets that were made because none was given, shown once.
	Made map[string]string `json:"made,omitempty"`
}

func viewChannel(i channel.Info) channelJSON {
	return channelJSON{
		Channel: i.Channel, Configured: i.Configured, Enabled: i.Enabled, Settings: i.Settings, Credentials: i.Credentials, UpdatedAt: moment(i.UpdatedAt),
	}
}

func (c *call) channel() push.Channel { return push.Channel(c.r.PathValue("channel")) }

// listChannels is GET /v1/channels. There are few: they are one page.
func (a *api) listChannels(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	infos := a.Channels.List(c.key.App)
	l := newList[channelJSON](len(infos), "")
	for _, i := range infos {
		l.Items = append(l.Items, viewChannel(i))
	}
	return c.value(http.StatusOK, l)
}

// getChannel is GET /v1/channels/{channel}.
func (a *api) getChannel(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	info, err := a.Channels.Get(c.key.App, c.channel())
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewChannel(info))
}

// putChannel is PUT /v1/channels/{channel}. Fields that are absent stay as they are, since credentials cannot be read
// to be sent back; null takes a field away.
func (a *api) putChannel(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	fields, err := a.Channels.Fields(c.channel())
	if err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxChannelBody)
	if err != nil {
		return err
	}
	change, err := decodeChannel(body, fields)
	if err != nil {
		return err
	}
	info, made, err := a.Channels.Set(c.ctx, c.key.App, c.channel(), change)
	if err != nil {
		return err
	}
	a.Log.InfoContext(c.ctx, "channel set", "app", c.key.App, "channel", c.channel(), "by", c.key.Key)
	v := viewChannel(info)
	v.Made = made
	return c.value(http.StatusOK, v)
}

func decodeChannel(body []byte, known []channel.Field) (change channel.Change, err error) {
	change.Values = channel.Values{}
	members := fields{"enabled": &change.Enabled}
	for _, f := range known {
		members[f.Name] = setting(f.Type, change.Values)
	}
	return change, members.decode(body)
}

// setting reads the value of a channel's field; null takes it away.
func setting(t channel.Type, into channel.Values) reader {
	return func(field string, raw json.RawMessage) (err error) {
		var one string
		switch {
		case string(raw) == "null":
		case t == channel.Bool:
			var on bool
			if err = readValue(field, raw, &on); on {
				one = "true"
			}
		case t == channel.List && raw[0] == '[':
			var list []string
			err = texts(&list, maxSettingList, word)(field, raw)
			one = strings.Join(list, " ")
		default:
			err = readValue(field, raw, &one)
		}
		into[field] = one
		return err
	}
}

const maxSettingList = 16

// deleteChannel is DELETE /v1/channels/{channel}.
func (a *api) deleteChannel(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	if err := a.Channels.Delete(c.ctx, c.key.App, c.channel()); err != nil {
		return err
	}
	a.Log.InfoContext(c.ctx, "channel deleted", "app", c.key.App, "channel", c.channel(), "by", c.key.Key)
	return c.noContent()
}

// testJSON is what a test found: it is the answer, not a failure of the request.
type testJSON struct {
	OK      bool   `json:"ok"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

// testChannel is POST /v1/channels/{channel}/test: without an address it tries the credentials, with one it sends a
// message there.
func (a *api) testChannel(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxTestBody)
	if err != nil {
		return err
	}
	r := push.Request{ID: "test-" + rand.Text(), App: c.key.App, ExpiresAt: time.Now().Add(10 * time.Minute)}
	if len(body) > 0 {
		if err := decodeTest(body, &r); err != nil {
			return err
		}
	}
	sender, err := a.Channels.Sender(c.ctx, c.key.App, c.channel())
	if err != nil {
		return err
	}
	if r.Address == nil && r.Recipient == "" {
		about, err := a.Channels.Check(c.ctx, c.key.App, c.channel())
		return c.value(http.StatusOK, tested(about, err))
	}
	receipt, err := sender.Send(c.ctx, r)
	return c.value(http.StatusOK, tested(receipt.ExternalID, err))
}

func decodeTest(body []byte, r *push.Request) error {
	r.Content = push.Content{Title: "Test", Body: "It works."}
	return fields{
		"address": reader(func(_ string, raw json.RawMessage) error {
			r.Address = raw
			return nil
		}),
		"recipient": text(func(field, name string) error {
			r.Recipient = name
			return notification.CheckName(field, name)
		}),
		"title": &r.Content.Title, "body": &r.Content.Body,
	}.decode(body)
}

func tested(detail string, err error) testJSON {
	v := testJSON{Outcome: "accepted", OK: err == nil, Detail: detail}
	if err == nil {
		return v
	}
	v.Outcome, v.Detail = "failed", err.Error()
	for name, is := range map[string]bool{
		"retry": is[*push.RetryError](err), "gone": is[*push.GoneError](err), "config": is[*push.ConfigError](err), "unknown": is[*push.UnknownError](err),
	} {
		if is {
			v.Outcome = name
		}
	}
	return v
}

func is[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// webPushKey is GET /v1/webpush/key: what pages subscribe with, so any page may read it.
func (a *api) webPushKey(c *call) error {
	c.w.Header().Set("Access-Control-Allow-Origin", "*")
	q, err := c.params()
	if err != nil {
		return err
	}
	app, err := a.Apps.App(q.Get("app"))
	if err != nil {
		return err
	}
	key, err := a.Channels.WebPushKey(c.ctx, app.Name)
	if errors.Is(err, channel.ErrDisabled) {
		return problem.ChannelUnused.With("the app does not use Web Push")
	}
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, map[string]string{"app": app.Name, "public_key": key})
}
