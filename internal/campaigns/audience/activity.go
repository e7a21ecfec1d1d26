package audience

import (
	"encoding/json"
	"maps"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Attributes of the endpoints of Live Activities. Attributes are indexed, so the activities of an object are found without a table of
// their own (docs/adr/0045).
const (
	// FollowsAttribute names the object that the activity follows, as group/object. It follows from the address.
	FollowsAttribute = "godwit_object"
	// ToldAttribute is the version that the activity has got; see package activity.
	ToldAttribute = "godwit_told"
)

// ActivityAddress is the address of a running Live Activity, or of all that follow a broadcast channel.
type ActivityAddress struct {
	Token     string `json:"token,omitempty"`
	ChannelID string `json:"channel_id,omitempty"` // of the broadcast channel
	Keep      bool   `json:"keep,omitempty"`       // the channel keeps the latest update for devices that are off
	Group     string `json:"group"`
	Object    string `json:"object"`
}

// Activity returns the address of a Live Activity.
func (e *Endpoint) Activity() (a ActivityAddress) {
	_ = json.Unmarshal(e.Address, &a) // cannot fail: addresses in normal form are JSON
	return a
}

// follow sets the attribute by which the activities of an object are found.
func (e *Endpoint) follow() {
	if e.Channel != push.LiveActivity {
		return
	}
	a := e.Activity()
	all := Attributes{}
	maps.Copy(all, e.Attributes)
	all[FollowsAttribute] = Text(a.Group + "/" + a.Object)
	e.Attributes = all
}

func activityToken(address json.RawMessage) string {
	var a struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal(address, &a)
	return a.Token
}

func activityAddress(fields map[string]json.RawMessage) (a ActivityAddress, err error) {
	if err := only(fields, "token", "channel_id", "keep", "group", "object"); err != nil {
		return a, err
	}
	for name, to := range map[string]*string{"token": &a.Token, "channel_id": &a.ChannelID, "group": &a.Group, "object": &a.Object} {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, to) != nil {
			return a, notification.BadField("address."+name, "must be a text")
		}
	}
	if raw, ok := fields["keep"]; ok && json.Unmarshal(raw, &a.Keep) != nil {
		return a, notification.BadField("address.keep", "must be true or false")
	}
	if err := notification.CheckName("address.group", a.Group); err != nil {
		return a, err
	}
	if err := notification.CheckName("address.object", a.Object); err != nil {
		return a, err
	}
	switch {
	case a.Token == "" && a.ChannelID == "":
		return a, notification.BadField("address.token", "is required: what pushTokenUpdates of the activity gives")
	case a.Token != "" && a.ChannelID != "":
		return a, notification.BadField("address.channel_id", "is of a broadcast channel, and token of one device: give one of them")
	case a.ChannelID != "":
		return a, push.CheckBroadcastID("address.channel_id", a.ChannelID)
	case a.Keep:
		return a, notification.BadField("address.keep", "is of a broadcast channel")
	}
	a.Token, err = apnsToken(strings.TrimSpace(a.Token))
	return a, err
}

// startAddress is the address of a device on which messages may start activities of a type.
func startAddress(fields map[string]json.RawMessage) (v any, err error) {
	if err := only(fields, "token", "type"); err != nil {
		return nil, err
	}
	var a struct {
		Token string `json:"token"`
		Type  string `json:"type"`
	}
	for name, to := range map[string]*string{"token": &a.Token, "type": &a.Type} {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, to) != nil {
			return nil, notification.BadField("address."+name, "must be a text")
		}
	}
	if a.Token == "" {
		return nil, notification.BadField("address.token", "is required: what pushToStartTokenUpdates of the activity's type gives")
	}
	if err := push.CheckActivityType("address.type", a.Type); err != nil {
		return nil, err
	}
	a.Token, err = apnsToken(strings.TrimSpace(a.Token))
	return a, err
}
