package endpoint

import (
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Holder is the caller of a request about an app's endpoints: a back end, a client with a recipient's token, the holder
// of a manage token, or an unknown visitor.
type Holder struct {
	App       string
	BackEnd   bool
	Recipient string // of a client; empty: not one
	Token     string // a manage token; empty: none
}

// Visitor reports whether the caller is neither a back end nor a recipient. A manage token identifies its endpoint, not
// its holder.
func (h *Holder) Visitor() bool { return !h.BackEnd && h.Recipient == "" }

func (h *Holder) mayTouch(e *audience.Endpoint) bool {
	return h.BackEnd || h.Token != "" && e.Token.Opens(h.Token) || h.Recipient != "" && e.Recipient == h.Recipient
}

// NotAllowedError says that the caller may not do that with an endpoint.
type NotAllowedError struct{ Why string }

func (e *NotAllowedError) Error() string { return "not allowed: " + e.Why }

// devices are the channels whose addresses are made by a device for one server: only their holder knows them. Other
// addresses name a person who was not asked, so only a back end may register them.
var devices = []push.Channel{push.WebPush, push.FCM, push.APNs}

// mayRegister refuses fields that the caller may not set, and adds those that follow from the caller's identity.
func (h *Holder) mayRegister(e *audience.Endpoint) error {
	switch {
	case h.BackEnd:
		return nil
	case e.ID != (audience.ID{}):
		return notification.BadField("id", "only a back end with role publish gives ids")
	case h.Visitor() && e.Recipient != "":
		return notification.BadField("recipient", "needs a client's token or an API key with role publish")
	case !h.Visitor() && e.Recipient != "" && e.Recipient != h.Recipient:
		return &NotAllowedError{"the token is for another recipient"}
	case !slices.Contains(devices, e.Channel) && audience.Known(e.Channel):
		return notification.BadField("channel", "%s needs an API key with role publish", e.Channel)
	}
	e.Recipient = h.Recipient
	return nil
}

// MayChange refuses a change of a field if the caller may not make it.
func (h *Holder) MayChange(field string) error {
	switch field {
	case "recipient", "status", "disabled_reason":
		if !h.BackEnd {
			return &NotAllowedError{field + ": only an API key with role publish changes it"}
		}
	}
	return nil
}

// mayMove reports whether the address of an endpoint may change to its current one.
func (h *Holder) mayMove(e *audience.Endpoint) error {
	if !h.BackEnd && !slices.Contains(devices, e.Channel) {
		return &NotAllowedError{"address: only an API key with role publish changes it on this channel"}
	}
	return nil
}
