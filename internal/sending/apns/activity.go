package apns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Live Activities (developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications,
// developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns).
const (
	activityType  = "liveactivity"
	activityTopic = ".push-type.liveactivity" // follows the bundle id
	// maxBroadcast is the most bytes of an update for a broadcast channel.
	maxBroadcast = 5120
	// activityLife is how long an activity can be active: APNs need not keep an update for longer.
	activityLife = 8 * time.Hour
)

var _ push.ActivityUpdater = (*Sender)(nil)

// activityPayload is the payload for a Live Activity.
type activityPayload struct {
	APS activityAPS `json:"aps"`
}

type activityAPS struct {
	Timestamp  int64           `json:"timestamp"` // in seconds: the device shows the newest
	Event      string          `json:"event"`
	State      json.RawMessage `json:"content-state,omitempty"`
	Type       string          `json:"attributes-type,omitempty"` // of a start, like all below it
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Channel    string          `json:"input-push-channel,omitempty"`
	WantsToken int             `json:"input-push-token,omitempty"` // 1: the app gets a token for updates
	Alert      *activityAlert  `json:"alert,omitempty"`
	Stale      int64           `json:"stale-date,omitempty"`
	Dismiss    int64           `json:"dismissal-date,omitempty"`
	Relevance  *float64        `json:"relevance-score,omitempty"`
}

type activityAlert struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Sound string `json:"sound,omitempty"`
}

// ObjectAttribute is the attribute of a started activity that names the object that it follows, as group/object. An app that has it among
// its attributes knows what to register the activity's token for.
const ObjectAttribute = "godwit_object"

// startMessage converts a request that starts a Live Activity on a device.
func (s *Sender) startMessage(r *push.Request) (*message, error) {
	var a struct {
		Token string `json:"token"`
		Type  string `json:"type"`
	}
	if json.Unmarshal(r.Address, &a) != nil || !validToken(a.Token) || a.Type == "" {
		return nil, errors.New(`address: is not like {"token":"…","type":"…"}`)
	}
	c := r.Content.Activity
	switch {
	case c == nil:
		return nil, errors.New("the message has no live_activity, which says what starts")
	case a.Type != c.Type:
		return nil, fmt.Errorf("the token starts activities of type %s, the message is one of type %s", a.Type, c.Type)
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(s.cfg.Now()):
		return nil, errors.New("expired before it was sent")
	case r.Content.Title == "" && r.Content.Body == "":
		return nil, errors.New("a start needs a title or a body: the system shows them as its alert")
	}
	attributes, err := attributesOf(c)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	p := activityAPS{
		Timestamp: now.Unix(), Event: "start", State: c.State, Type: c.Type, Attributes: attributes, Channel: c.Broadcast,
		Alert: &activityAlert{r.Content.Title, r.Content.Body, r.Content.APNs.Sound}, Relevance: c.Relevance,
	}
	if c.Broadcast == "" {
		p.WantsToken = 1
	}
	if c.StaleAfter != "" {
		stale, err := notification.ParseDuration(c.StaleAfter)
		if err != nil {
			return nil, fmt.Errorf("stale_after: %w", err)
		}
		p.Stale = now.Add(stale).Unix()
	}
	m := s.activityMessage(a.Token, startPriority(r.Urgency))
	m.id = messageID(r)
	if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(now.Add(activityLife)) {
		m.expiration = strconv.FormatInt(r.ExpiresAt.Unix(), 10)
	}
	m.body, err = encodeActivity(&p, maxPayload)
	return m, err
}

// startPriority is that of a start: somebody waits for it, unless the publisher says otherwise.
func startPriority(u push.Urgency) string {
	if u == push.UrgencyLow {
		return priority(push.UrgencyNormal)
	}
	return priority(push.UrgencyHigh)
}

// attributesOf returns the attributes with the name of the object that the activity follows.
func attributesOf(c *push.ActivityContent) (json.RawMessage, error) {
	if c.Object == "" {
		if len(c.Attributes) == 0 {
			return json.RawMessage(`{}`), nil
		}
		return c.Attributes, nil
	}
	all := map[string]json.RawMessage{}
	if len(c.Attributes) > 0 && json.Unmarshal(c.Attributes, &all) != nil {
		return nil, errors.New("live_activity.attributes: must be an object")
	}
	if all == nil {
		return nil, errors.New("live_activity.attributes: must be an object")
	}
	all[ObjectAttribute], _ = json.Marshal(c.Group + "/" + c.Object) // a text
	return json.Marshal(all)
}

// UpdateActivity implements push.ActivityUpdater. The address is that of one device, or of a broadcast channel.
func (s *Sender) UpdateActivity(ctx context.Context, u *push.ActivityUpdate) error {
	m, err := s.updateMessage(u)
	if err != nil {
		return &push.PermanentError{Reason: err.Error()}
	}
	a, err := s.post(ctx, m)
	if err == nil {
		err = s.judge(a, m)
	}
	return err
}

func (s *Sender) updateMessage(u *push.ActivityUpdate) (*message, error) {
	var at struct {
		Token   string `json:"token"`
		Channel string `json:"channel_id"`
		Keep    bool   `json:"keep"`
	}
	if json.Unmarshal(u.Address, &at) != nil || at.Channel == "" && !validToken(at.Token) {
		return nil, errors.New(`address: is not like {"token":"…"} or {"channel_id":"…"}`)
	}
	now := s.cfg.Now()
	p := activityAPS{Timestamp: now.Unix(), Event: "update", State: u.State, Relevance: u.Relevance}
	if u.End {
		p.Event = "end"
	}
	if u.Alert != nil {
		p.Alert = &activityAlert{u.Alert.Title, u.Alert.Body, u.Alert.Sound}
	}
	if !u.Stale.IsZero() {
		p.Stale = u.Stale.Unix()
	}
	if u.End && !u.Dismiss.IsZero() {
		p.Dismiss = u.Dismiss.Unix()
	}
	m, most := s.activityMessage(at.Token, priority(u.Urgency)), maxPayload
	if at.Channel != "" {
		m, most = s.broadcastMessage(at.Channel, at.Keep, priority(u.Urgency)), maxBroadcast
	}
	var err error
	m.body, err = encodeActivity(&p, most)
	return m, err
}

// activityMessage is a message for the Live Activity of one device.
func (s *Sender) activityMessage(token, priority string) *message {
	return &message{
		path: "/3/device/" + token, topic: s.cfg.Topic + activityTopic, scope: s.scope + activityTopic, kind: activityType, priority: priority,
		expiration: strconv.FormatInt(s.cfg.Now().Add(activityLife).Unix(), 10), id: newID(),
	}
}

// broadcastMessage is a message for a broadcast channel. APNs takes a time to keep it only from channels that keep the latest one.
func (s *Sender) broadcastMessage(channel string, keep bool, priority string) *message {
	m := s.activityMessage("", priority)
	m.path, m.topic, m.channel = "/4/broadcasts/apps/"+s.cfg.Topic, "", channel
	if !keep {
		m.expiration = "0"
	}
	return m
}

func encodeActivity(p *activityAPS, most int) ([]byte, error) {
	plain, err := encode(&activityPayload{*p})
	if err == nil && len(plain) > most {
		err = fmt.Errorf("the message has %d bytes; APNs takes %d", len(plain), most)
	}
	return plain, err
}

func validToken(token string) bool {
	return token != "" && len(token) <= maxToken && strings.Trim(token, "0123456789abcdefABCDEF") == ""
}
