package push

import (
	"encoding/json"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// FCMContent holds fields for Firebase Cloud Messaging only.
type FCMContent struct {
	ChannelID string `json:"channel_id,omitempty"` // of Android's notification channel
	Sound     string `json:"sound,omitempty"`      // one of the app's sounds, or "default"; empty: silent on iOS, the notification channel's sound on Android
	DataOnly  *bool  `json:"data_only,omitempty"`  // false: Android shows the notification itself; nil: the app gets data and shows it

	// Ongoing asks the app for a notification that stays, as Android's Live Updates do. ShortText and Progress (0 to 100) are what it shows
	// in the status bar and as a bar.
	Ongoing   bool   `json:"ongoing,omitempty"`
	ShortText string `json:"short_text,omitempty"`
	Progress  *int   `json:"progress,omitempty"`

	// Networks and states in which Android lets the message through to the app
	// (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#AndroidConfig).
	DirectBoot  bool `json:"direct_boot_ok,omitempty"`           // before the device is first unlocked after a start
	Satellite   bool `json:"restricted_satellite_ok,omitempty"`  // on a restricted satellite network
	Constrained bool `json:"bandwidth_constrained_ok,omitempty"` // on a network of little bandwidth
}

// maxShortText limits an ongoing notification's short text, in bytes: Android shows seven characters and cuts longer ones.
const maxShortText = 64

// Check validates the fields; in is the name of the field that contains them.
func (c *FCMContent) Check(in string) error {
	switch {
	case c.Ongoing && c.DataOnly != nil && !*c.DataOnly:
		return notification.BadField(in+".ongoing", "needs data_only: only the app itself can show a notification that stays")
	case !c.Ongoing && c.ShortText != "":
		return notification.BadField(in+".short_text", "is of an ongoing notification: set %s.ongoing", in)
	case !c.Ongoing && c.Progress != nil:
		return notification.BadField(in+".progress", "is of an ongoing notification: set %s.ongoing", in)
	case len(c.ShortText) > maxShortText:
		return notification.BadField(in+".short_text", "has %d bytes; at most %d are allowed, and Android shows seven characters", len(c.ShortText), maxShortText)
	case c.Progress != nil && (*c.Progress < 0 || *c.Progress > 100):
		return notification.BadField(in+".progress", "%d is not from 0 to 100", *c.Progress)
	}
	return nil
}

// APNsContent holds fields for Apple's devices only.
type APNsContent struct {
	Sound             string   `json:"sound,omitempty"`              // "default", or a file in the app; empty: no sound
	Badge             *int     `json:"badge,omitempty"`              // number on the app's icon; 0 removes it; absent: unchanged
	ThreadID          string   `json:"thread_id,omitempty"`          // notifications of one thread are shown together
	InterruptionLevel string   `json:"interruption_level,omitempty"` // passive, active, time-sensitive or critical; empty: active
	Relevance         *float64 `json:"relevance_score,omitempty"`    // from 0 to 1: which notification a summary shows first
	Critical          bool     `json:"critical,omitempty"`           // the sound plays although the device is muted; needs an entitlement of the app
	Volume            *float64 `json:"volume,omitempty"`             // of a critical sound, from 0 to 1; nil: 1
	Background        bool     `json:"background,omitempty"`         // wakes the app in the background and shows nothing
}

// InterruptionLevels are APNs' values.
var InterruptionLevels = []string{"passive", "active", "time-sensitive", "critical"}

// levelCritical is the level of what a muted device plays.
const levelCritical = "critical"

// Check validates the fields; in is the name of the field that contains them.
func (c *APNsContent) Check(in string) error {
	switch {
	case c.InterruptionLevel != "" && !slices.Contains(InterruptionLevels, c.InterruptionLevel):
		return notification.BadField(in+".interruption_level", "%.40q is none of %s", c.InterruptionLevel, strings.Join(InterruptionLevels, ", "))
	case c.Badge != nil && *c.Badge < 0:
		return notification.BadField(in+".badge", "%d is below 0", *c.Badge)
	case !fraction(c.Relevance):
		return notification.BadField(in+".relevance_score", "is not from 0 to 1")
	case !fraction(c.Volume):
		return notification.BadField(in+".volume", "is not from 0 to 1")
	case c.Volume != nil && !c.Critical:
		return notification.BadField(in+".volume", "is of a critical sound: set %s.critical", in)
	case c.Critical && c.Sound == "":
		return notification.BadField(in+".critical", "needs a sound: %s.sound is default, or a file in the app", in)
	case c.Critical && c.InterruptionLevel != "" && c.InterruptionLevel != levelCritical:
		return notification.BadField(in+".critical", "has interruption level critical, not %s", c.InterruptionLevel)
	}
	return nil
}

func fraction(n *float64) bool { return n == nil || *n >= 0 && *n <= 1 }

// ActivityContent is what a message needs to start a Live Activity
// (developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications). The
// title and body of the message are its alert.
type ActivityContent struct {
	Type       string          `json:"type"`                 // name of the app's ActivityAttributes
	Attributes json.RawMessage `json:"attributes,omitempty"` // its attributes, an object; absent: {}
	State      json.RawMessage `json:"state"`                // its content state at the start, an object
	// Group and Object name the object that the activity follows; Object empty: none.
	Group  string `json:"group,omitempty"`
	Object string `json:"object,omitempty"`
	// Broadcast is the id of the object's broadcast channel. Empty: the activity gets a token of its own for updates.
	Broadcast  string   `json:"broadcast,omitempty"`
	StaleAfter string   `json:"stale_after,omitempty"` // how long the state is good for; empty: for good
	Relevance  *float64 `json:"relevance_score,omitempty"`
}

const (
	maxTypeName  = 128
	maxBroadcast = 128 // bytes of a channel's id; Apple's have 24
)

// Check validates the fields; in is the name of the field that contains them.
func (c *ActivityContent) Check(in string) error {
	if err := CheckActivityType(in+".type", c.Type); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		json json.RawMessage
	}{{"state", c.State}, {"attributes", c.Attributes}} {
		switch {
		case len(f.json) == 0 && f.name == "state":
			return notification.BadField(in+".state", "is required: what the activity shows at first")
		case len(f.json) == 0:
			continue
		}
		if err := notification.CheckJSON(in+"."+f.name, f.json); err != nil {
			return err
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(f.json, &members) != nil || members == nil {
			return notification.BadField(in+"."+f.name, "must be an object")
		}
	}
	if c.Object != "" || c.Group != "" {
		for name, text := range map[string]string{"group": c.Group, "object": c.Object} {
			if err := notification.CheckName(in+"."+name, text); err != nil {
				return err
			}
		}
	}
	if c.Broadcast != "" {
		if err := CheckBroadcastID(in+".broadcast", c.Broadcast); err != nil {
			return err
		}
	}
	if !fraction(c.Relevance) {
		return notification.BadField(in+".relevance_score", "is not from 0 to 1")
	}
	if c.StaleAfter == "" {
		return nil
	}
	if d, err := notification.ParseDuration(c.StaleAfter); err != nil {
		return notification.BadField(in+".stale_after", "%s", err)
	} else if d <= 0 {
		return notification.BadField(in+".stale_after", "must be positive")
	}
	return nil
}

// CheckActivityType validates the name of a Swift type.
func CheckActivityType(field, name string) error {
	switch {
	case name == "":
		return notification.BadField(field, "is required: the name of the app's ActivityAttributes, like RideAttributes")
	case len(name) > maxTypeName || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}):
		return notification.BadField(field, "%.40q is not the name of a Swift type: at most %d letters, digits, _ and .", name, maxTypeName)
	}
	return nil
}

// CheckBroadcastID validates the id of a broadcast channel: Apple's are base64.
func CheckBroadcastID(field, id string) error {
	if id == "" || len(id) > maxBroadcast || strings.ContainsFunc(id, func(r rune) bool {
		return !strings.ContainsRune("+/=-_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return notification.BadField(field, "is not the id of a broadcast channel, which is base64 of at most %d characters", maxBroadcast)
	}
	return nil
}
