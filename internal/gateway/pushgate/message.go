package pushgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/notify/notification"
)

// Kinds of a device's messages, by their messageType.
const (
	typeHello      = "hello"
	typeRegister   = "register"
	typeUnregister = "unregister"
	typeAck        = "ack"
	typeNack       = "nack"
	typeBroadcast  = "broadcast_subscribe"
	typePing       = "ping"
)

// message is a message of a device.
type message struct {
	Type      string `json:"messageType"`
	UAID      string `json:"uaid"`
	ChannelID string `json:"channelID"`
	Key       string `json:"key"` // public key of the only sender, in base64url
	Code      int    `json:"code"`
	Version   string `json:"version"`
	Updates   []ack  `json:"updates"`
}

// ack is the end of one message on a device.
type ack struct {
	ChannelID string `json:"channelID"`
	Version   string `json:"version"`
	Code      int    `json:"code"`
}

// Codes of acknowledgements.
const (
	codeDelivered   = 100
	codeUndecrypted = 101
	codeNotShown    = 102 // the page's worker failed, or the channel is unknown there
)

var errNotJSON = errors.New("a message is one JSON object")

// emptyMessage is a ping.
var emptyMessage = []byte("{}")

// parse reads a message of a device. The empty object is a ping.
func parse(b []byte) (m message, err error) {
	if bytes.Equal(b, emptyMessage) {
		return message{Type: typePing}, nil
	}
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return m, errNotJSON
	}
	if err := json.Unmarshal(b, &m); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return m, fmt.Errorf("%s must not be a JSON %s", wrong.Field, wrong.Value)
		}
		return m, errNotJSON
	}
	return m, m.check()
}

func (m *message) check() error {
	switch m.Type {
	case "":
		if m.UAID != "" || m.ChannelID != "" || m.Updates != nil {
			return errors.New("messageType is missing")
		}
		m.Type = typePing
	case typeRegister, typeUnregister:
		if m.ChannelID == "" {
			return errors.New("channelID is missing")
		}
	case typeAck:
		for _, a := range m.Updates {
			if notification.CheckName("version", a.Version) != nil {
				return errors.New("updates has a version that was never sent")
			}
		}
	case typeNack:
		if m.Version != "" && notification.CheckName("version", m.Version) != nil {
			return errors.New("version was never sent")
		}
	}
	return nil
}

// uuidLength is the length of a channel's name: a UUID with its hyphens (RFC 9562 section 4).
const uuidLength = 36

// isUUID reports whether a channel's name is a UUID.
func isUUID(s string) bool {
	if len(s) != uuidLength {
		return false
	}
	for i := range len(s) {
		switch hyphen := i == 8 || i == 13 || i == 18 || i == 23; {
		case hyphen != (s[i] == '-'), !hyphen && !isHex(s[i]):
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Answers to devices.
type (
	helloAnswer struct {
		Type       string            `json:"messageType"`
		UAID       string            `json:"uaid"`
		Status     int               `json:"status"`
		WebPush    bool              `json:"use_webpush"`
		Broadcasts map[string]string `json:"broadcasts"`
	}
	channelAnswer struct {
		Type      string `json:"messageType"`
		ChannelID string `json:"channelID"`
		Status    int    `json:"status"`
		Endpoint  string `json:"pushEndpoint,omitempty"`
	}
	broadcastAnswer struct {
		Type       string            `json:"messageType"`
		Broadcasts map[string]string `json:"broadcasts"`
	}
)

// encode writes an answer.
func encode(answer any) []byte {
	b, err := json.Marshal(answer)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return b
}
