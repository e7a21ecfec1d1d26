package fcmserver

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxPayload  = 4096
	maxTTL      = 28 * 24 * time.Hour
	maxCollapse = 64 // bytes of an apns-collapse-id
	maxTopic    = 32 // characters of a Topic
)

type envelope struct {
	ValidateOnly bool `json:"validate_only"`
	Message      struct {
		Token   string            `json:"token"`
		Topic   string            `json:"topic"`
		Data    map[string]string `json:"data"`
		Android Android           `json:"android"`
		APNs    APNs              `json:"apns"`
		WebPush WebPush           `json:"webpush"`
	} `json:"message"`
}

// Android holds the fields for Android devices.
type Android struct {
	Collapse     string `json:"collapse_key"`
	Priority     string `json:"priority"`
	TTL          string `json:"ttl"`
	DirectBoot   bool   `json:"direct_boot_ok"`
	Satellite    bool   `json:"restricted_satellite_ok"`
	Constrained  bool   `json:"bandwidth_constrained_ok"`
	Notification *struct {
		Title     string `json:"title"`
		Body      string `json:"body"`
		Image     string `json:"image"`
		Tag       string `json:"tag"`
		ChannelID string `json:"channel_id"`
		Sound     string `json:"sound"`
		Count     int    `json:"notification_count"`
	} `json:"notification"`
}

// APNs is what iPhones get.
type APNs struct {
	Headers map[string]string `json:"headers"`
	Payload struct {
		APS struct {
			Alert *struct {
				Title string `json:"title"`
				Body  string `json:"body"`
			} `json:"alert"`
			Sound      string `json:"sound"`
			Badge      *int   `json:"badge"`
			Background int    `json:"content-available"`
		} `json:"aps"`
	} `json:"payload"`
}

// WebPush is what browsers get.
type WebPush struct {
	Headers      map[string]string `json:"headers"`
	Notification map[string]any    `json:"notification"`
	Options      struct {
		Link string `json:"link"`
	} `json:"fcm_options"`
}

// parse reads a message as strictly as Google does and returns its fault.
func parse(body []byte) (*envelope, string) {
	var e envelope
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return nil, err.Error()
	}
	m := &e.Message
	switch {
	case (m.Token == "") == (m.Topic == ""):
		return nil, "message has not exactly one of token and topic"
	case m.Android.Priority != "" && m.Android.Priority != "NORMAL" && m.Android.Priority != "HIGH":
		return nil, "android.priority is none of NORMAL, HIGH"
	case m.Android.TTL != "" && !goodTTL(m.Android.TTL):
		return nil, "android.ttl is not from 0s to four weeks"
	case m.WebPush.Options.Link != "" && !strings.HasPrefix(m.WebPush.Options.Link, "https://"):
		return nil, "webpush.fcm_options.link is not https"
	case len(m.WebPush.Headers["Topic"]) > maxTopic, len(m.APNs.Headers["apns-collapse-id"]) > maxCollapse:
		return nil, "a collapse key is too long"
	}
	for name := range m.Data {
		if reserved(name) {
			return nil, "data has the reserved name " + name
		}
	}
	return &e, m.APNs.wrong()
}

// reserved reports whether FCM keeps a name of data for itself.
func reserved(name string) bool {
	return name == "from" || name == "message_type" || strings.HasPrefix(name, "google") || strings.HasPrefix(name, "gcm")
}

// wrong returns the fault for which Apple would refuse the message; "": none.
func (a *APNs) wrong() string {
	if a.Headers == nil {
		return ""
	}
	aps := &a.Payload.APS
	alert := aps.Alert != nil || aps.Badge != nil
	expires, err := strconv.ParseInt(a.Headers["apns-expiration"], 10, 64)
	switch {
	case err != nil || time.Unix(expires, 0).Before(time.Now().Add(-time.Minute)):
		return "apns-expiration is no time to come"
	case !slices.Contains([]string{"10", "5", "1"}, a.Headers["apns-priority"]):
		return "apns-priority is none of 10, 5, 1"
	case aps.Alert != nil && aps.Background == 1, !alert && aps.Background != 1, alert != (a.Headers["apns-push-type"] == "alert"):
		return "apns-push-type does not say what aps holds"
	case !alert && a.Headers["apns-priority"] == "10":
		return "a background push has priority 10"
	}
	return ""
}

var ttlForm = regexp.MustCompile(`^[0-9]+s$`)

func goodTTL(text string) bool {
	if !ttlForm.MatchString(text) {
		return false
	}
	d, err := time.ParseDuration(text)
	return err == nil && d <= maxTTL
}

// empty reports whether it contains nothing but its target.
func (e *envelope) empty() bool {
	return len(e.Message.Data) == 0 && e.Message.Android == (Android{}) && e.Message.APNs.Headers == nil && e.Message.WebPush.Headers == nil
}

// size returns the bytes that a device receives.
func (e *envelope) size() (n int) {
	for k, v := range e.Message.Data {
		n += len(k) + len(v)
	}
	if a := e.Message.Android.Notification; a != nil {
		n += len(a.Title) + len(a.Body) + len(a.Image)
	}
	return n
}
