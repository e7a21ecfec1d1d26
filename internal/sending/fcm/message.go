package fcm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

const (
	// MaxPayload is the most bytes of keys and values that FCM accepts for a device
	// (firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type).
	MaxPayload = 4096
	maxTTL     = 28 * 24 * time.Hour // the longest that FCM keeps a message
	defaultTTL = 24 * time.Hour
)

// envelope is the body of messages:send (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages).
type envelope struct {
	ValidateOnly bool    `json:"validate_only,omitempty"`
	Message      message `json:"message"`
}

type message struct {
	Token   string            `json:"token,omitempty"`
	Topic   string            `json:"topic,omitempty"`
	Data    map[string]string `json:"data,omitempty"`
	Android *android          `json:"android,omitempty"`
	APNs    *apns             `json:"apns,omitempty"`
	WebPush *webpush          `json:"webpush,omitempty"`
}

type android struct {
	Collapse     string               `json:"collapse_key,omitempty"`
	Priority     string               `json:"priority"`
	TTL          string               `json:"ttl"`
	DirectBoot   bool                 `json:"direct_boot_ok,omitempty"`
	Satellite    bool                 `json:"restricted_satellite_ok,omitempty"`
	Constrained  bool                 `json:"bandwidth_constrained_ok,omitempty"`
	Notification *androidNotification `json:"notification,omitempty"`
}

type androidNotification struct {
	Title     string `json:"title,omitempty"`
	Body      string `json:"body,omitempty"`
	Image     string `json:"image,omitempty"`
	Tag       string `json:"tag"`
	ChannelID string `json:"channel_id,omitempty"`
	Sound     string `json:"sound,omitempty"`
	Count     int    `json:"notification_count,omitempty"`
}

// apns holds the fields for tokens of iPhones whose app receives its pushes through FCM.
type apns struct {
	Headers apnsHeaders `json:"headers"`
	Payload struct {
		APS aps `json:"aps"`
	} `json:"payload"`
}

type apnsHeaders struct {
	Type       string `json:"apns-push-type"`
	Priority   string `json:"apns-priority"`
	Expiration string `json:"apns-expiration"`
	Collapse   string `json:"apns-collapse-id,omitempty"`
}

type aps struct {
	Alert      *text  `json:"alert,omitempty"`
	Sound      string `json:"sound,omitempty"`
	Badge      *int   `json:"badge,omitempty"`
	Background int    `json:"content-available,omitempty"`
}

type text struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// webpush holds fields for tokens of browsers whose page uses Firebase's library.
type webpush struct {
	Headers      webpushHeaders       `json:"headers"`
	Notification *webpushNotification `json:"notification,omitempty"`
	Options      *webpushOptions      `json:"fcm_options,omitempty"`
}

type webpushHeaders struct {
	TTL     string `json:"TTL"`
	Urgency string `json:"Urgency"`
	Topic   string `json:"Topic,omitempty"`
}

type webpushNotification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
	Icon  string `json:"icon,omitempty"`
	Image string `json:"image,omitempty"`
	Tag   string `json:"tag"`
}

type webpushOptions struct {
	Link string `json:"link"`
}

// encode makes the body of a request's message.
func encode(r *push.Request, token string, now time.Time) ([]byte, error) {
	left := defaultTTL
	if !r.ExpiresAt.IsZero() {
		if left = r.ExpiresAt.Sub(now); left <= 0 {
			return nil, errors.New("expired before it was sent")
		}
	}
	left = min(left, maxTTL)
	m := message{Token: token, Data: data(r)}
	tag, c := tagOf(r), &r.Content
	if err := c.FCM.Check("fcm"); err != nil { // of a version that did not check it
		return nil, err
	}
	shows := !r.Recall && (c.Title != "" || c.Body != "")
	badge := !r.Recall && r.Badge != nil && (shows || r.BadgeOnly)
	seconds := strconv.FormatInt(int64(left/time.Second), 10)
	m.Android = &android{
		Collapse: r.Collapse, Priority: "NORMAL", TTL: seconds + "s",
		DirectBoot: c.FCM.DirectBoot, Satellite: c.FCM.Satellite, Constrained: c.FCM.Constrained, // a recall goes where its message went
	}
	m.APNs = &apns{Headers: apnsHeaders{
		Type: "background", Priority: "5", Expiration: strconv.FormatInt(now.Add(left).Unix(), 10), Collapse: short(tag),
	}}
	m.WebPush = &webpush{Headers: webpushHeaders{TTL: seconds, Urgency: urgency(r), Topic: short(tag)}}
	if urgency(r) == string(push.UrgencyHigh) {
		m.Android.Priority = "HIGH"
	}
	if shows {
		m.show(r, tag)
	} else {
		m.APNs.Payload.APS.Background = 1
	}
	if badge { // a number is for the user to see
		m.APNs.Headers.Type, m.APNs.Payload.APS.Badge = "alert", r.Badge
	}
	if n := m.size(); n > MaxPayload {
		return nil, fmt.Errorf("the message has %d bytes; FCM takes %d", n, MaxPayload)
	}
	return marshal(&envelope{Message: m})
}

// show sets the notification that devices show by themselves, without the app.
func (m *message) show(r *push.Request, tag string) {
	c := &r.Content
	m.APNs.Headers.Type = "alert"
	if urgency(r) == string(push.UrgencyHigh) {
		m.APNs.Headers.Priority = "10"
	}
	m.APNs.Payload.APS.Alert, m.APNs.Payload.APS.Sound = &text{Title: c.Title, Body: c.Body}, c.FCM.Sound
	m.WebPush.Notification = &webpushNotification{Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, Tag: tag}
	if strings.HasPrefix(c.URL, "https://") { // FCM refuses any other link
		m.WebPush.Options = &webpushOptions{Link: c.URL}
	}
	if c.FCM.DataOnly != nil && !*c.FCM.DataOnly {
		m.Android.Notification = &androidNotification{
			Title: c.Title, Body: c.Body, Image: c.Image, Tag: tag, ChannelID: c.FCM.ChannelID, Sound: c.FCM.Sound,
		}
		if r.Badge != nil {
			m.Android.Notification.Count = *r.Badge
		}
	}
}

// data is the payload that the app receives; docs/reference/fcm-payload.md is its contract. All its values are texts, as FCM requires.
func data(r *push.Request) map[string]string {
	id := idOf(r)
	d := make(map[string]string, 8)
	add := func(name, text string) {
		if text != "" {
			d[name] = text
		}
	}
	if r.Badge != nil && !r.Recall {
		d["godwit_badge"] = strconv.Itoa(*r.Badge)
	}
	if r.BadgeOnly {
		return d
	}
	if tag := tagOf(r); tag != id {
		d["tag"] = tag
	}
	if r.Recall {
		d["godwit_recall"] = id
		return d
	}
	c := &r.Content
	d["godwit_id"] = id
	add("godwit_track", r.Track)
	add("godwit_ack", r.AckToken)
	add("godwit_settle", r.Settle)
	add("title", c.Title)
	add("body", c.Body)
	add("icon", c.Icon)
	add("image", c.Image)
	add("url", c.URL)
	add("category", c.Category)
	add("channel_id", c.FCM.ChannelID)
	add("sound", c.FCM.Sound)
	if c.FCM.Ongoing {
		d["ongoing"] = "true"
		add("short_text", c.FCM.ShortText)
		if c.FCM.Progress != nil {
			d["progress"] = strconv.Itoa(*c.FCM.Progress)
		}
	}
	if text := string(c.Data); text != "null" {
		add("data", text)
	}
	return d
}

// size is the number of bytes that an Android device receives. Other devices receive further fields, whose size only FCM can check: it
// knows a token's kind of device.
func (m *message) size() (n int) {
	for k, v := range m.Data {
		n += len(k) + len(v)
	}
	if a := m.Android.Notification; a != nil {
		n += len(a.Title) + len(a.Body) + len(a.Image) + len(a.Tag) + len(a.ChannelID) + len(a.Sound)
	}
	return n
}

// idOf is the id by which the app deduplicates.
func idOf(r *push.Request) string {
	if r.GodwitID != "" {
		return r.GodwitID
	}
	return r.ID
}

// tagOf decides which shown messages replace each other: those with the same collapse key, else with the same id.
func tagOf(r *push.Request) string {
	if r.Collapse != "" {
		return r.Collapse
	}
	return idOf(r)
}

func urgency(r *push.Request) string {
	switch {
	case r.Recall:
		return string(push.UrgencyLow)
	case r.Urgency == push.UrgencyLow || r.Urgency == push.UrgencyHigh:
		return string(r.Urgency)
	}
	return string(push.UrgencyNormal)
}

// short makes a key of 32 characters from any tag. It fits into a Topic (RFC 8030) and an apns-collapse-id (64 bytes).
func short(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

func marshal(e *envelope) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // URLs are full of &
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b.Bytes(), nil
}

// parseAddress reads {"token"}.
func parseAddress(address json.RawMessage) (string, error) {
	var a struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(address, &a); err != nil || a.Token == "" {
		return "", errors.New(`is not like {"token":"…"}`)
	}
	return a.Token, nil
}
