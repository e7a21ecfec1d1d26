package frame

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message is a message of a topic.
type Message struct {
	Topic, ContentType string
	Data               []byte
	Kept               bool   // it waits in mailboxes too; only frames to MQTT clients say so
	MQTT               string // properties that only frames to MQTT clients have
	QoS                byte   // of an MQTT publisher; only frames to MQTT clients say so
}

// EncodeMessage makes a message frame. It is the same for every receiver: encode it once per format and share it.
func EncodeMessage(f Format, m *Message) []byte {
	if m.ContentType == "" && len(m.Data) > 0 { // JSON frames omit the type application/json, so data without a type needs another one
		typed := *m
		typed.ContentType = anyBytes
		m = &typed
	}
	return f.Message(m)
}

// anyBytes is the type of data without a content type (RFC 9110, section 8.3).
const anyBytes = "application/octet-stream"

// AppendGap appends a message frame with the number of dropped messages.
func AppendGap(dst []byte, f Format, n uint32) []byte { return f.Gap(dst, n) }

func (t textEncoding) Message(m *Message) []byte {
	dst := make([]byte, 0, 96+len(m.Topic)+len(m.Data)+len(m.Data)/8+len(m.ContentType))
	dst = appendString(append(t.open(dst, ServerMessage), `{"topic":`...), m.Topic)
	dst = t.appendBody(dst, m.Data, m.ContentType)
	return slices.Clip(t.end(append(dst, '}')))
}

func (t textEncoding) Gap(dst []byte, n uint32) []byte {
	dst = strconv.AppendUint(append(t.open(dst, ServerMessage), `{"gap":`...), uint64(n), 10)
	return t.end(append(dst, '}'))
}

func (protoEncoding) Message(m *Message) []byte {
	dst := openProto(make([]byte, 0, 32+len(m.Topic)+len(m.Data)+len(m.ContentType)), ServerMessage)
	body := len(dst)
	dst = appendProtoString(dst, 1, m.Topic)
	dst = appendProtoString(dst, 2, m.ContentType)
	if len(m.Data) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), m.Data)
	}
	return slices.Clip(putLength(dst, body))
}

func (protoEncoding) Gap(dst []byte, n uint32) []byte {
	dst = openProto(dst, ServerMessage)
	return putLength(appendProtoInt(dst, 4, int64(n)), len(dst))
}
