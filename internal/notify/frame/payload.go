package frame

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// payloadEncoding writes notification_service.NotificationPayload, the only message that nammayatri's notification-service sends. Its
// clients know no other frames, so these are empty.
type payloadEncoding struct{}

// PayloadData is the JSON structure of Content.Data in a notification that is written as a Payload.
type PayloadData struct {
	Show   string        `json:"show"`
	Entity PayloadEntity `json:"entity"`
}

// PayloadEntity is the entity to which such a notification belongs.
type PayloadEntity struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"` // JSON text, as published
}

// Field numbers of notification_service.NotificationPayload and its Entity.
const (
	payloadID       protowire.Number = 1
	payloadCategory protowire.Number = 2
	payloadTitle    protowire.Number = 3
	payloadBody     protowire.Number = 4
	payloadShow     protowire.Number = 5
	payloadEntity   protowire.Number = 6
	entityID        protowire.Number = 1
	entityType      protowire.Number = 2
	entityData      protowire.Number = 3
)

// payloadHead is empty: such a notification has no fields that depend on the receiver.
func payloadHead(dst []byte, _ uint64, _ uint32, _ int) []byte { return dst }

func (payloadEncoding) NotificationTail(n *notification.Notification) []byte {
	var d PayloadData
	_ = json.Unmarshal(n.Content.Data, &d) // other data has no fields to show; the notification is sent without them
	return payloadTail(n, &d)
}

// SetPayload makes a notification's Payload from its content and d, which replaces Content.Data. A caller that has these values saves
// writing them as JSON, which takes longer than all other work. It must be called before the notification is passed on.
func SetPayload(n *notification.Notification, d *PayloadData) {
	n.Wire().Add(Payload.Key(), payloadTail(n, d))
}

func payloadTail(n *notification.Notification, d *PayloadData) []byte {
	c, e := &n.Content, &d.Entity
	entity := stringSize(entityID, e.ID) + stringSize(entityType, e.Type) + stringSize(entityData, e.Data)
	size := stringSize(payloadID, n.ID) + stringSize(payloadCategory, c.Category) + stringSize(payloadTitle, c.Title) +
		stringSize(payloadBody, c.Body) + stringSize(payloadShow, d.Show) + protowire.SizeTag(payloadEntity) + protowire.SizeBytes(entity)
	dst := make([]byte, 0, size)
	dst = appendProtoString(dst, payloadID, n.ID)
	dst = appendProtoString(dst, payloadCategory, c.Category)
	dst = appendProtoString(dst, payloadTitle, c.Title)
	dst = appendProtoString(dst, payloadBody, c.Body)
	dst = appendProtoString(dst, payloadShow, d.Show)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, payloadEntity, protowire.BytesType), uint64(entity))
	dst = appendProtoString(dst, entityID, e.ID)
	dst = appendProtoString(dst, entityType, e.Type)
	return appendProtoString(dst, entityData, e.Data)
}

// stringSize is what appendProtoString appends.
func stringSize(num protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeBytes(len(s))
}

// DecodePayloadAck decodes a notification_service.NotificationAck. Apps send an empty id when they connect: it gives no frame. A returned
// error is an *Error.
func DecodePayloadAck(b []byte, into *Client) error {
	into.reset(0)
	var id []byte
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return ackError(n)
		}
		b = b[n:]
		if num != 1 || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return ackError(n)
			}
			b = b[n:]
			continue
		}
		if id, n = protowire.ConsumeBytes(b); n < 0 {
			return ackError(n)
		}
		b = b[n:]
		if err := checkText(KindAck, "id", id); err != nil {
			return err
		}
	}
	if len(id) > 0 {
		into.Kind, into.IDs = KindAck, append(into.IDs, id)
	}
	return nil
}

func ackError(n int) error {
	return frameError("not a protobuf NotificationAck: %v", protowire.ParseError(n))
}

func (payloadEncoding) Object(object.Key, *object.State) []byte                    { return nil }
func (payloadEncoding) Message(*Message) []byte                                    { return nil }
func (payloadEncoding) Gap(dst []byte, _ uint32) []byte                            { return dst }
func (payloadEncoding) Welcome(dst []byte, _ Welcome) []byte                       { return dst }
func (payloadEncoding) Recall(dst []byte, _ []string) []byte                       { return dst }
func (payloadEncoding) Registered(dst []byte, _ Registered) []byte                 { return dst }
func (payloadEncoding) RegistrationFailed(dst []byte, _ RegistrationFailed) []byte { return dst }
func (payloadEncoding) Pong(dst []byte, _ string) []byte                           { return dst }
func (payloadEncoding) Goodbye(dst []byte, _ Goodbye) []byte                       { return dst }
func (payloadEncoding) Error(dst []byte, _ Error) []byte                           { return dst }
func (payloadEncoding) Request(dst []byte, _ *Request) []byte                      { return dst }
