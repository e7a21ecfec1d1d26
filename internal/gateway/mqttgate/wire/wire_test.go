package wire

import (
	"errors"
	"strings"
	"testing"
)

// body makes a packet of a first byte and a body.
func body(first byte, rest ...byte) []byte {
	return append(appendVarint([]byte{first}, len(rest)), rest...)
}

func TestBrokenPacketsHaveTheirReason(t *testing.T) {
	for name, c := range map[string]struct {
		packet []byte
		v      Version
		want   Reason
	}{
		"type 0":                       {[]byte{0, 0}, V5, Malformed},
		"reserved flags":               {[]byte{byte(PUBACK)<<4 | 1, 2, 0, 1}, V5, Malformed},
		"SUBSCRIBE without its flags":  {body(0x80, 0, 1, 0, 0, 1, 'a', 0), V5, Malformed},
		"QoS 3":                        {body(0x36, 0, 1, 'a', 0, 1, 0), V5, Malformed},
		"DUP at QoS 0":                 {body(0x38, 0, 1, 'a', 0), V5, Malformed},
		"length of five bytes":         {[]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1}, V5, Malformed},
		"length with a needless byte":  {[]byte{0xc0, 0x80, 0}, V5, Malformed},
		"larger than the limit":        {[]byte{0x30, 0xff, 0xff, 0x7f}, V5, TooLarge},
		"packet id 0":                  {body(0x32, 0, 1, 'a', 0, 0, 0), V5, Malformed},
		"wildcard in a topic":          {body(0x30, 0, 3, 'a', '/', '#', 0), V5, InvalidTopic},
		"plus in a topic":              {body(0x30, 0, 1, '+'), V311, InvalidTopic},
		"U+0000":                       {body(0x30, 0, 1, 0, 0), V5, Malformed},
		"not UTF-8":                    {body(0x30, 0, 2, 0xc3, 0x28, 0), V5, Malformed},
		"a surrogate":                  {body(0x30, 0, 3, 0xed, 0xa0, 0x80, 0), V5, Malformed},
		"no topic and no alias":        {body(0x30, 0, 0, 0), V5, ProtocolError},
		"alias 0":                      {body(0x30, 0, 1, 'a', 3, byte(TopicAlias), 0, 0), V5, InvalidAlias},
		"property twice":               {body(0x30, 0, 1, 'a', 4, byte(PayloadFormat), 0, byte(PayloadFormat), 0), V5, ProtocolError},
		"property of another packet":   {body(0x30, 0, 1, 'a', 3, byte(ReceiveMaximum), 0, 1), V5, ProtocolError},
		"property that does not exist": {body(0x30, 0, 1, 'a', 2, 0x7e, 0), V5, Malformed},
		"payload format 2":             {body(0x30, 0, 1, 'a', 2, byte(PayloadFormat), 2), V5, ProtocolError},
		"properties cut short":         {body(0x30, 0, 1, 'a', 9, byte(PayloadFormat)), V5, Malformed},
		"receive maximum 0":            {AppendConnect(nil, &Connect{Version: V5}, AppendNumber(nil, ReceiveMaximum, 0), nil), V5, ProtocolError},
		"packet size 0":                {AppendConnect(nil, &Connect{Version: V5}, AppendNumber(nil, MaximumPacket, 0), nil), V5, ProtocolError},
		"no filter":                    {body(0x82, 0, 1, 0), V5, ProtocolError},
		"empty filter":                 {body(0x82, 0, 1, 0, 0, 0, 0), V5, Malformed},
		"options of 5 in 3.1.1":        {body(0x82, 0, 1, 0, 1, 'a', 4), V311, Malformed},
		"retain handling 3":            {body(0x82, 0, 1, 0, 0, 1, 'a', 0x30), V5, ProtocolError},
		"subscription id 0":            {body(0x82, 0, 1, 2, byte(SubscriptionID), 0, 0, 1, 'a', 0), V5, ProtocolError},
		"will of QoS 3":                {body(0x10, 0, 4, 'M', 'Q', 'T', 'T', 5, 0x1c, 0, 0, 0, 0, 0), V5, Malformed},
		"reserved flag of CONNECT":     {body(0x10, 0, 4, 'M', 'Q', 'T', 'T', 5, 1, 0, 0, 0, 0, 0), V5, Malformed},
		"password without user":        {body(0x10, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x42, 0, 0, 0, 0, 0, 1, 'x'), V311, Malformed},
		"another protocol":             {body(0x10, 0, 4, 'A', 'M', 'Q', 'P', 5, 2, 0, 0, 0, 0, 0), V5, Malformed},
		"more than its fields":         {body(0x10, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 0, 9), V311, Malformed},
		"PINGREQ with a body":          {body(0xc0, 1), V5, Malformed},
	} {
		p, n, err := Next(c.packet, 1<<16)
		if err == nil && n == 0 {
			t.Errorf("%s: the packet is not complete", name)
			continue
		}
		if err == nil {
			_, err = decoded(c.v, p)
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != c.want {
			t.Errorf("%s: %v, want reason %#x", name, err, byte(c.want))
		}
	}
}

func TestOtherVersionsAreTold(t *testing.T) {
	for name, packet := range map[string][]byte{
		"3.1": body(0x10, append([]byte{0, 6}, "MQIsdp\x03\x02\x00\x00\x00\x01c"...)...),
		"6":   body(0x10, append([]byte{0, 4}, "MQTT\x06\x02\x00\x00\x00\x00\x01c"...)...),
	} {
		p, _, err := Next(packet, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*UnsupportedError](new(Connect).Decode(p)); !ok {
			t.Errorf("%s is not told to be another version", name)
		}
	}
}

func TestConnectIsReadAsWritten(t *testing.T) {
	want := &Connect{
		Version: V5, Clean: true, KeepAlive: 30, ClientID: []byte("car-7"), HasUser: true, User: []byte("demo/ann"), HasPassword: true, Password: []byte{0, 1},
		HasWill: true, WillQoS: 1, WillRetain: true, WillTopic: []byte("a/b"), WillOf: []byte("gone"),
	}
	props := AppendUser(AppendNumber(nil, ReceiveMaximum, 9), "group", "region-1")
	p, _, err := Next(AppendConnect(nil, want, props, AppendNumber(nil, WillDelay, 5)), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	var got Connect
	if err := got.Decode(p); err != nil {
		t.Fatal(err)
	}
	group, _ := got.Properties.UserValue("group")
	if string(got.ClientID) != "car-7" || string(got.Password) != "\x00\x01" || !got.WillRetain || string(got.WillOf) != "gone" || got.KeepAlive != 30 ||
		got.Properties.Number(ReceiveMaximum, 0) != 9 || got.WillProperties.Number(WillDelay, 0) != 5 || string(group) != "region-1" {
		t.Errorf("was read as %+v", got)
	}
}

func TestTooManyUserPropertiesAndFiltersAreRefused(t *testing.T) {
	props := []byte{}
	filters := []Filter{}
	for range maxUser + 1 {
		props = AppendUser(props, "a", "b")
	}
	for range MaxFilters + 1 {
		filters = append(filters, Filter{Name: []byte("a")})
	}
	for name, b := range map[string][]byte{
		"user properties": AppendConnect(nil, &Connect{Version: V5}, props, nil), "filters": AppendSubscribe(nil, V5, 1, nil, filters...),
	} {
		p, _, err := Next(b, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = decoded(V5, p); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
