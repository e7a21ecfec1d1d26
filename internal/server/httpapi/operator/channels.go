package operator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Channels reads, changes and tests an app's channels.
type Channels interface {
	List(app string) []channel.Info
	Get(app string, ch push.Channel) (channel.Info, error)
	Fields(ch push.Channel) ([]channel.Field, error)
	// Set changes settings and returns generated values, which are not shown again.
	Set(ctx context.Context, app string, ch push.Channel, change channel.Change) (channel.Info, channel.Values, error)
	Delete(ctx context.Context, app string, ch push.Channel, must setting.Match) error
	Check(ctx context.Context, app string, ch push.Channel) (about string, err error)
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
	// Upload checks a file and returns the function that gives it to the channel's provider and returns its id.
	Upload(ctx context.Context, app string, ch push.Channel, address json.RawMessage, f *push.File) (give func(context.Context) (string, error), err error)
}

const (
	maxChannelBody = 32 << 10 // in bytes; a key in PEM has 300
	maxTestBody    = 16 << 10
)

type channelJSON struct {
	Channel     push.Channel   `json:"channel"`
	Configured  bool           `json:"configured"`
	Enabled     bool           `json:"enabled"`
	Settings    map[string]any `json:"settings"`
	Credentials []string       `json:"credentials"` // names of the credentials that are set
	UpdatedAt   call.Moment    `json:"updated_at"`
	// Made holds generated secrets for those that were not given; they are shown once.
	Made map[string]string `json:"made,omitempty"`

	revised
}

func viewChannel(i *channel.Info) channelJSON {
	return channelJSON{
		Channel: i.Channel, Configured: i.Configured, Enabled: i.Enabled, Settings: i.Settings, Credentials: i.Credentials, UpdatedAt: call.Moment(i.UpdatedAt),
		revised: atRevision(setting.RevisionAt(i.UpdatedAt)),
	}
}

func channelOf(c *call.Call) push.Channel { return push.Channel(c.R.PathValue("channel")) }

// channels returns the calls below /v1/channels. A PUT leaves absent fields unchanged, since callers cannot read credentials to send them
// back; null removes a field.
func (a *API) channels() settings[channelJSON] {
	return settings[channelJSON]{
		kind: "channel", path: "/v1/channels", name: "channel", most: maxChannelBody,
		check: func(name string) error {
			_, err := a.Channels.Fields(push.Channel(name))
			return err
		},
		list: func(c *call.Call) ([]channelJSON, error) { return views(a.Channels.List(c.Key.App), viewChannel), nil },
		get: func(c *call.Call, name string) (channelJSON, error) {
			info, err := a.Channels.Get(c.Key.App, push.Channel(name))
			return viewChannel(&info), err
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v channelJSON, created bool, err error) {
			fields, err := a.Channels.Fields(push.Channel(name))
			if err != nil {
				return v, false, err
			}
			change, err := decodeChannel(body, fields)
			if err != nil {
				return v, false, err
			}
			change.Must = must
			info, made, err := a.Channels.Set(c.Ctx, c.Key.App, push.Channel(name), change)
			v = viewChannel(&info)
			v.Made = made
			return v, false, err
		},
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Channels.Delete(c.Ctx, c.Key.App, push.Channel(name), must)
		},
	}
}

func decodeChannel(body []byte, known []channel.Field) (change channel.Change, err error) {
	change.Values = channel.Values{}
	members := call.Fields{"enabled": &change.Enabled}
	for _, f := range known {
		members[f.Name] = valueOf(f, true, func(value any) {
			switch v := value.(type) {
			case string:
				change.Values[f.Name] = v
			case []string:
				change.Values[f.Name] = strings.Join(v, " ")
			case bool:
				change.Values[f.Name] = map[bool]string{true: "true"}[v]
			}
		})
	}
	return change, members.Decode(body)
}

// testJSON is the result of a test. The request succeeds even if the test fails.
type testJSON struct {
	OK      bool   `json:"ok"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

// TestChannel is POST /v1/channels/{channel}/test: without an address it tries the credentials, with one it sends a
// message there.
func (a *API) TestChannel(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxTestBody)
	if err != nil {
		return err
	}
	r := push.Request{ID: "test-" + rand.Text(), App: c.Key.App, ExpiresAt: time.Now().Add(10 * time.Minute)}
	if len(body) > 0 {
		if err := decodeTest(body, &r); err != nil {
			return err
		}
	}
	sender, err := a.Channels.Sender(c.Ctx, c.Key.App, channelOf(c))
	if err != nil {
		return err
	}
	if r.Address == nil && r.Recipient == "" {
		about, err := a.Channels.Check(c.Ctx, c.Key.App, channelOf(c))
		return c.Value(http.StatusOK, tested(about, err))
	}
	receipt, err := sender.Send(c.Ctx, r)
	return c.Value(http.StatusOK, tested(receipt.ExternalID, err))
}

func decodeTest(body []byte, r *push.Request) error {
	r.Content = push.Content{Title: "Test", Body: "It works."}
	return call.Fields{
		"address": call.Reader(func(_ string, raw json.RawMessage) error {
			r.Address = raw
			return nil
		}),
		"recipient": call.Text(func(field, name string) error {
			r.Recipient = name
			return notification.CheckName(field, name)
		}),
		"title": &r.Content.Title, "body": &r.Content.Body,
	}.Decode(body)
}

func tested(detail string, err error) testJSON {
	v := testJSON{Outcome: push.Outcome(err), OK: err == nil, Detail: detail}
	if err != nil {
		v.Detail = err.Error()
	}
	return v
}
