package godwit

import (
	"encoding/json"
	"fmt"
)

// FCM is what Android devices alone get of a notification, over Firebase Cloud Messaging.
type FCM struct {
	ChannelID string `json:"channel_id,omitempty"` // Android's notification channel
	Sound     string `json:"sound,omitempty"`
	DataOnly  *bool  `json:"data_only,omitempty"` // false: Android shows the notification itself
	// Ongoing has the app show a notification that stays, as Android's Live Updates do, with ShortText in the status bar and a bar of
	// Progress percent. The next one of the same CollapseKey replaces it.
	Ongoing   bool   `json:"ongoing,omitempty"`
	ShortText string `json:"short_text,omitempty"`
	Progress  *int   `json:"progress,omitempty"`

	DirectBootOK           bool `json:"direct_boot_ok,omitempty"`           // before the device is first unlocked after a start
	RestrictedSatelliteOK  bool `json:"restricted_satellite_ok,omitempty"`  // over a restricted satellite network
	BandwidthConstrainedOK bool `json:"bandwidth_constrained_ok,omitempty"` // over a network of little bandwidth
}

// APNs is what Apple's devices alone get of a notification.
type APNs struct {
	Sound             string   `json:"sound,omitempty"` // default, or a file in the app
	Badge             *int     `json:"badge,omitempty"`
	ThreadID          string   `json:"thread_id,omitempty"`
	InterruptionLevel string   `json:"interruption_level,omitempty"` // passive, active, time-sensitive or critical
	RelevanceScore    *float64 `json:"relevance_score,omitempty"`    // from 0 to 1
	Critical          bool     `json:"critical,omitempty"`           // the sound plays although the device is muted
	Volume            *float64 `json:"volume,omitempty"`             // of a critical sound, from 0 to 1
	Background        bool     `json:"background,omitempty"`
}

// LiveActivity is the Live Activity that a notification starts on the channel liveactivitystart. Title and Body are its alert.
type LiveActivity struct {
	Type       string          `json:"type"`                 // name of the app's ActivityAttributes
	Attributes json.RawMessage `json:"attributes,omitempty"` // an object
	State      json.RawMessage `json:"state"`                // the content state at the start, an object
	// Group and Object name the object that the activity follows: the payload of each version is its next content state.
	Group          string   `json:"group,omitempty"`
	Object         string   `json:"object,omitempty"`
	Broadcast      string   `json:"broadcast,omitempty"`   // id of the object's broadcast channel
	StaleAfter     string   `json:"stale_after,omitempty"` // how long the state is good for, like 10m
	RelevanceScore *float64 `json:"relevance_score,omitempty"`
}

// phones returns what phones alone get, for godwit.v1.Publisher.
func (p *Publication) phones() (string, error) {
	if p.FCM == nil && p.APNs == nil && p.LiveActivity == nil {
		return "", nil
	}
	b, err := json.Marshal(&struct {
		FCM          *FCM          `json:"fcm,omitempty"`
		APNs         *APNs         `json:"apns,omitempty"`
		LiveActivity *LiveActivity `json:"live_activity,omitempty"`
	}{p.FCM, p.APNs, p.LiveActivity})
	if err != nil {
		return "", fmt.Errorf("encode what phones get: %w", err)
	}
	return string(b), nil
}
