package mqttgate_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// packetOf makes a packet of a first byte and a body.
func packetOf(first byte, body ...byte) []byte {
	return append([]byte{first, byte(len(body))}, body...)
}

func TestBrokenPacketsEndTheConnectionWithTheirReason(t *testing.T) {
	s := start(t)
	second := wire.AppendConnect(nil, hi(wire.V5, "ann", "x"), nil, nil)
	for name, c := range map[string]struct {
		packet []byte
		want   wire.Reason
	}{
		"type 0":              {[]byte{0, 0}, wire.Malformed},
		"reserved flags":      {packetOf(0x41, 0, 1), wire.Malformed},
		"U+0000":              {packetOf(0x30, 0, 1, 0, 0), wire.Malformed},
		"invalid UTF-8":       {packetOf(0x30, 0, 2, 0xc3, 0x28, 0), wire.Malformed},
		"wildcard in a topic": {packetOf(0x30, 0, 3, 'a', '/', '#', 0), wire.InvalidTopic},
		"packet id 0":         {packetOf(0x32, 0, 1, 'a', 0, 0, 0), wire.Malformed},
		"alias 0":             {packetOf(0x30, 0, 1, 'a', 3, byte(wire.TopicAlias), 0, 0), wire.InvalidAlias},
		"alias above":         {packetOf(0x30, 0, 1, 'a', 3, byte(wire.TopicAlias), 0, 17), wire.InvalidAlias},
		"alias of nothing":    {packetOf(0x30, 0, 0, 3, byte(wire.TopicAlias), 0, 3), wire.ProtocolError},
		"second CONNECT":      {second, wire.ProtocolError},
		"packet too large":    {[]byte{0x30, 0xff, 0xff, 0x7f}, wire.TooLarge},
		"QoS 2":               {packetOf(0x34, 0, 1, 'a', 0, 1, 0), wire.QoSUnsupported},
		"SUBACK":              {packetOf(0x90, 0, 1, 0, 0), wire.ProtocolError},
		"AUTH":                {packetOf(0xf0, 0x18, 0), wire.BadAuthMethod},
		"PINGREQ with a body": {packetOf(0xc0, 1), wire.Malformed},
		"expiry from nothing": {packetOf(0xe0, 0, 5, byte(wire.SessionExpiry), 0, 0, 0, 9), wire.ProtocolError},
		"no filter":           {packetOf(0x82, 0, 1, 0), wire.ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, s, hi(wire.V5, "ann", ""))
			p.send(c.packet)
			p.ended(c.want)
		})
	}
	other := connect(t, s, hi(wire.V5, "ben", ""))
	other.ping() // they hurt nobody
}

func TestBrokenPacketsEndAConnectionOf311WithoutAWord(t *testing.T) {
	s := start(t)
	for name, packet := range map[string][]byte{
		"reserved flags":      packetOf(0x41, 0, 1),
		"wildcard in a topic": packetOf(0x30, 0, 3, 'a', '/', '#'),
		"packet id 0":         packetOf(0x32, 0, 1, 'a', 0, 0),
		"second CONNECT":      wire.AppendConnect(nil, hi(wire.V311, "ann", "x"), nil, nil),
		"options of 5":        packetOf(0x82, 0, 1, 0, 1, 'a', 4),
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, s, hi(wire.V311, "ann", ""))
			p.send(packet)
			p.ended(0)
		})
	}
}

func TestBadConnectIsRefusedWithItsReason(t *testing.T) {
	s := start(t)
	will := func(topic string, qos byte) *wire.Connect {
		c := hi(wire.V5, "ann", "x")
		c.HasWill, c.WillTopic, c.WillQoS = true, []byte(topic), qos
		return c
	}
	nobody := hi(wire.V311, "ann", "")
	nobody.Clean = false
	secret, _ := key(t, s, 0x1)
	for name, c := range map[string]struct {
		hello *wire.Connect
		props []byte
		want  wire.Reason
		code  byte // in 3.1.1
	}{
		"wrong token":               {as(hi(wire.V5, "ann", "x"), "no.such.token"), nil, wire.BadUserPassword, 4},
		"token of another":          {as(hi(wire.V5, "ben", "x"), s.Token(t, "ann", 60e9)), nil, wire.NotAuthorized, 5},
		"unknown app":               {&wire.Connect{Version: wire.V5, Clean: true, HasUser: true, User: []byte("nobody/ann"), HasPassword: true, Password: []byte("x.y.z")}, nil, wire.NotAuthorized, 5},
		"bad name":                  {&wire.Connect{Version: wire.V5, Clean: true, HasUser: true, User: []byte("demo/a b")}, nil, wire.BadUserPassword, 4},
		"enhanced authentication":   {hi(wire.V5, "ann", "x"), wire.AppendText(nil, wire.AuthMethod, "SCRAM-SHA-1"), wire.BadAuthMethod, 0},
		"will with a wildcard":      {will("a/+", 0), nil, wire.InvalidTopic, 0},
		"will to nothing":           {will("inbox", 0), nil, wire.InvalidTopic, 0},
		"will at QoS 2":             {will("a", 2), nil, wire.QoSUnsupported, 0},
		"will without the right":    {as(will("a", 0), secret), nil, wire.NotAuthorized, 0},
		"last session of nobody":    {nobody, nil, 2, 2},
		"expiry twice":              {hi(wire.V5, "ann", "x"), append(wire.AppendNumber(nil, wire.SessionExpiry, 1), wire.AppendNumber(nil, wire.SessionExpiry, 1)...), wire.ProtocolError, 0},
		"key that may not listen":   {as(hi(wire.V5, "ann", "x"), first(key(t, s, 0x4))), nil, wire.NotAuthorized, 5},
		"password that is too long": {as(hi(wire.V5, "ann", "x"), strings.Repeat("x", 60000)), nil, wire.BadUserPassword, 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := connectWill(t, s, c.hello, c.props, nil)
			if p.ack.Reason != c.want {
				t.Errorf("refused with %#x %s, want %#x", byte(p.ack.Reason), p.ack.Properties.Text(wire.ReasonString), byte(c.want))
			}
			if packet, err := p.any(); !errors.Is(err, io.EOF) {
				t.Errorf("got %s, %v; want the end", packet.Type(), err)
			}
			if c.code == 0 || c.hello.Version == wire.V311 {
				return
			}
			c.hello.Version = wire.V311
			if p := connectWill(t, s, c.hello, nil, nil); p.ack.Reason != wire.Reason(c.code) {
				t.Errorf("3.1.1 is refused with %d, want %d", p.ack.Reason, c.code)
			}
		})
	}
}

func first(a, _ string) string { return a }

func TestOtherVersionsAreRefused(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		packet []byte
		want   []byte
	}{
		"3.1": {packetOf(0x10, []byte("\x00\x06MQIsdp\x03\x02\x00\x00\x00\x01c")...), []byte{0x20, 2, 0, 1}},
		"6":   {packetOf(0x10, []byte("\x00\x04MQTT\x06\x02\x00\x00\x00\x00\x01c")...), []byte{0x20}},
	} {
		r := dialRaw(t, addrOf(s), wire.V5)
		if err := r.write(c.packet); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.nc)
		if err != nil || !bytes.HasPrefix(got, c.want) {
			t.Errorf("%s: %x, %v; want %x", name, got, err, c.want)
		}
		if name == "6" && wire.Reason(got[3]) != wire.UnsupportedVersion {
			t.Errorf("6 is refused with %x", got)
		}
	}
}

func TestWhatDoesNotBeginWithConnectIsClosed(t *testing.T) {
	s := start(t)
	for name, b := range map[string][]byte{"PINGREQ": wire.PingRequest, "HTTP": []byte("GET / HTTP/1.1\r\n\r\n"), "TLS": {0x16, 3, 1, 2, 0, 1, 0}} {
		r := dialRaw(t, addrOf(s), wire.V5)
		if err := r.write(b); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r.nc); len(got) > 0 || err != nil {
			t.Errorf("%s: answered with %x, %v; want the end", name, got, err)
		}
	}
}

func TestClientWithoutConnectIsClosedInTime(t *testing.T) {
	s := start(t)
	r := dialRaw(t, addrOf(s), wire.V5)
	if err := r.write([]byte{0x10}); err != nil { // the beginning of a packet
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.nc); len(got) > 0 || err != nil {
		t.Errorf("answered with %x, %v; want the end", got, err)
	}
}

func TestSilentClientIsEndedAfterItsKeepAlive(t *testing.T) {
	s := start(t)
	c := hi(wire.V5, "ann", "")
	c.KeepAlive = 1
	p := connect(t, s, c)
	if got := p.ack.Properties.Number(wire.ServerKeepAlive, 0); got != 7 {
		t.Errorf("the server's keep-alive is %d, want 7", got)
	}
	p.ended(wire.KeepAliveTimeout)
}
