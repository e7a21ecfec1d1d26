package endpoint

import (
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/push"
)

// Holder is the caller of a request about an app's endpoints: a back end, a client with a recipient's token, the holder of a manage token,
// or an unknown visitor.
type Holder struct {
	App       string
	BackEnd   bool
	Admin     bool     // the back end has role admin
	Recipient string   // recipient of a client; empty: the caller is not a client
	Token     string   // a manage token; empty: none
	Objects   []string // patterns of the objects that a client may register for; nil: all
}

// Visitor reports whether the caller is neither a back end nor a recipient. A manage token identifies only an endpoint, not its holder.
func (h *Holder) Visitor() bool { return !h.BackEnd && h.Recipient == "" }

func (h *Holder) mayTouch(e *audience.Endpoint) bool {
	return h.BackEnd || h.Token != "" && e.Token.Opens(h.Token) || h.Recipient != "" && e.Recipient == h.Recipient
}

// NotAllowedError means that the caller may not do that with an endpoint.
type NotAllowedError struct{ Why string }

func (e *NotAllowedError) Error() string { return "not allowed: " + e.Why }

// mayRegister rejects fields that the caller may not set, and sets those that follow from the caller's identity.
func (h *Holder) mayRegister(e *audience.Endpoint) error {
	switch d := e.Channel.Find(); {
	case h.BackEnd:
		return nil
	case e.ID != (audience.ID{}):
		return notification.BadField("id", "only a back end with role publish gives ids")
	case !e.CreatedAt.IsZero() || !e.LastSeenAt.IsZero():
		return notification.BadField("created_at", "and last_seen_at are of imports: only a back end with role publish gives them")
	case h.Visitor() && e.Recipient != "":
		return notification.BadField("recipient", "needs a client's token or an API key with role publish")
	case !h.Visitor() && e.Recipient != "" && e.Recipient != h.Recipient:
		return &NotAllowedError{"the token is for another recipient"}
	case d != nil && !d.Device:
		return notification.BadField("channel", "%s needs an API key with role publish", e.Channel)
	}
	e.Recipient = h.Recipient
	return h.mayFollow(e)
}

// mayFollow returns an error if the caller may not have a Live Activity follow its object. A client's activities have the rights of its live
// connections.
func (h *Holder) mayFollow(e *audience.Endpoint) error {
	if e.Channel != push.LiveActivity || h.BackEnd {
		return nil
	}
	a := e.Activity()
	switch {
	case h.Visitor():
		return &NotAllowedError{"a Live Activity follows an object: that needs a client's token or an API key with role publish"}
	case a.ChannelID != "":
		return &NotAllowedError{"address.channel_id: broadcast channels are the back end's"}
	case !object.Allowed(h.Objects, object.Key{Group: a.Group, Object: a.Object}):
		return &NotAllowedError{"the token's claim objects does not allow " + a.Group + "/" + a.Object}
	}
	return nil
}

// MayChange returns an error if the caller may not change a field.
func (h *Holder) MayChange(field string) error {
	switch field {
	case "recipient", "status", "disabled_reason":
		if !h.BackEnd {
			return &NotAllowedError{field + ": only an API key with role publish changes it"}
		}
	}
	return nil
}

// mayMove returns an error if the caller may not change the address of an endpoint to its current one.
func (h *Holder) mayMove(e *audience.Endpoint) error {
	if d := e.Channel.Find(); !h.BackEnd && (d == nil || !d.Device) {
		return &NotAllowedError{"address: only an API key with role publish changes it on this channel"}
	}
	return h.mayFollow(e)
}
