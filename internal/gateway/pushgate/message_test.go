package pushgate

import (
	"encoding/json"
	"testing"
)

func TestMessagesOfDevicesAreRead(t *testing.T) {
	for _, c := range []struct {
		text, kind string
		bad        bool
	}{
		{`{}`, typePing, false},
		{`{"messageType":"ping"}`, typePing, false},
		{` { } `, typePing, false},
		{`{"messageType":"hello","uaid":null,"broadcasts":{"a":"b"},"use_webpush":true,"channelIDs":[]}`, typeHello, false},
		{`{"messageType":"register","channelID":"x"}`, typeRegister, false},
		{`{"messageType":"register"}`, "", true},
		{`{"messageType":"unregister","code":200}`, "", true},
		{`{"messageType":"ack","updates":[{"channelID":"x","version":"v1","code":100}]}`, typeAck, false},
		{`{"messageType":"ack","updates":[{"channelID":"x","version":"a b"}]}`, "", true},
		{`{"messageType":"ack","updates":[{"channelID":"x"}]}`, "", true},
		{`{"messageType":"ack","updates":{}}`, "", true},
		{`{"messageType":"nack","version":"v1","code":301}`, typeNack, false},
		{`{"messageType":"nack","version":"v 1"}`, "", true},
		{`{"messageType":"later","of":[1]}`, "later", false},
		{`{"uaid":"x"}`, "", true},
		{`{"messageType":7}`, "", true},
		{`bad-data`, "", true},
		{`[]`, "", true},
		{`null`, "", true},
		{``, "", true},
		{`{"messageType":"hello"`, "", true},
		{`{}{}`, "", true},
	} {
		m, err := parse([]byte(c.text))
		if (err != nil) != c.bad || err == nil && m.Type != c.kind {
			t.Errorf("%s is %q, %v; want %q, bad %t", c.text, m.Type, err, c.kind, c.bad)
		}
	}
}

func TestChannelsAreUUIDs(t *testing.T) {
	for text, is := range map[string]bool{
		"deadbeef-0000-4000-8000-0123456789ab": true, "DEADBEEF-0000-4000-8000-0123456789AB": true,
		"deadbeef000040008000-0123456789abcdef": false, "deadbeef00004000800001234567": false, "": false,
		"deadbeef-0000-4000-8000-0123456789a\"": false, "deadbeef-0000-4000-8000-0123456789-b": false,
	} {
		if isUUID(text) != is {
			t.Errorf("%q is a UUID: %t, want %t", text, !is, is)
		}
	}
}

// FuzzMessage checks that whatever a device sends is refused, or read so that its names can be sent back as JSON.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"messageType":"hello","uaid":"0123456789abcdef0123456789abcdef"}`, `{"messageType":"register","channelID":"deadbeef-0000-4000-8000-0123456789ab","key":"BA"}`,
		`{"messageType":"ack","updates":[{"channelID":"x","version":"v","code":101}]}`, `{"messageType":"nack","version":"v"}`, `{"messageType":"broadcast_subscribe","broadcasts":{"a":"b"}}`, `{"messageType":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		if m.Type == "" {
			t.Fatalf("%q has no type and no error", b)
		}
		for _, a := range m.Updates {
			if m.Type == typeAck && a.Version == "" {
				t.Fatalf("%q acknowledges nothing", b)
			}
		}
		if !json.Valid(encode(channelAnswer{Type: m.Type, ChannelID: m.ChannelID})) {
			t.Fatalf("%q is answered with bad JSON", b)
		}
	})
}
