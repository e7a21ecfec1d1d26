package wire

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Flags of PUBLISH.
const (
	retainFlag = 1
	dupFlag    = 8
)

// Flags of CONNECT (section 3.1.2.3).
const (
	reservedFlag   = 1
	cleanFlag      = 2
	willFlag       = 4
	willRetainFlag = 0x20
	passwordFlag   = 0x40
	userFlag       = 0x80
)

// reader takes fields from a packet's body.
type reader struct {
	of Type
	b  []byte
}

func (r *reader) short() error { return malformed("%s ends before its fields", r.of) }

func (r *reader) byte() (byte, error) {
	if len(r.b) == 0 {
		return 0, r.short()
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v, nil
}

func (r *reader) uint16() (uint16, error) {
	if len(r.b) < 2 {
		return 0, r.short()
	}
	v := binary.BigEndian.Uint16(r.b)
	r.b = r.b[2:]
	return v, nil
}

// packetID reads a packet identifier, which is never 0 (section 2.2.1).
func (r *reader) packetID() (uint16, error) {
	id, err := r.uint16()
	if err == nil && id == 0 {
		return 0, malformed("%s: packet identifier 0", r.of)
	}
	return id, err
}

// field reads a string or, unless it must be one, binary data.
func (r *reader) field(isText bool) ([]byte, error) {
	n, err := r.uint16()
	if err != nil {
		return nil, err
	}
	if len(r.b) < int(n) {
		return nil, r.short()
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	if isText && !validText(v) {
		return nil, malformed("%s: a string is not UTF-8, or has U+0000", r.of)
	}
	return v, nil
}

// validText reports whether b may be a string (section 1.5.4).
func validText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

func (r *reader) end() error {
	if len(r.b) > 0 {
		return malformed("%s: %d bytes follow its fields", r.of, len(r.b))
	}
	return nil
}

// Connect is a decoded CONNECT packet.
type Connect struct {
	Version           Version
	Clean             bool // clean start, or clean session
	KeepAlive         uint16
	ClientID          []byte
	HasUser           bool
	HasPassword       bool
	User, Password    []byte
	Properties        Properties
	HasWill           bool
	WillQoS           byte
	WillRetain        bool
	WillTopic, WillOf []byte // its topic and payload
	WillProperties    Properties
}

// UnsupportedError is the error of a CONNECT packet of another version.
type UnsupportedError struct{ Level byte }

func (e *UnsupportedError) Error() string {
	return "the protocol level is not that of MQTT 3.1.1 (4) or 5"
}

// Decode decodes a CONNECT packet. *UnsupportedError: the version is another.
func (c *Connect) Decode(p Packet) error {
	r := reader{of: CONNECT, b: p.Body}
	name, err := r.field(false)
	if err != nil {
		return err
	}
	level, err := r.byte()
	if err != nil {
		return err
	}
	switch {
	case string(name) == "MQIsdp":
		return &UnsupportedError{level}
	case string(name) != "MQTT":
		return malformed("CONNECT: the protocol is not MQTT")
	case Version(level) != V311 && Version(level) != V5:
		return &UnsupportedError{level}
	}
	f, err := r.byte()
	if err != nil {
		return err
	}
	*c = Connect{
		Version: Version(level), Clean: f&cleanFlag != 0, HasWill: f&willFlag != 0, WillQoS: f >> 3 & 3, WillRetain: f&willRetainFlag != 0,
		HasUser: f&userFlag != 0, HasPassword: f&passwordFlag != 0,
		Properties: Properties{User: c.Properties.User}, WillProperties: Properties{User: c.WillProperties.User},
	}
	if err := c.checkFlags(f); err != nil {
		return err
	}
	if c.KeepAlive, err = r.uint16(); err != nil {
		return err
	}
	c.Properties.reset()
	if c.Version == V5 {
		if err := r.properties(CONNECT, &c.Properties); err != nil {
			return err
		}
	}
	return c.payload(&r)
}

func (c *Connect) checkFlags(f byte) error {
	switch {
	case f&reservedFlag != 0:
		return malformed("CONNECT: the reserved flag is set")
	case c.WillQoS == 3:
		return malformed("CONNECT: a will of QoS 3")
	case !c.HasWill && (c.WillQoS != 0 || c.WillRetain):
		return malformed("CONNECT: flags of a will without a will")
	case c.Version == V311 && c.HasPassword && !c.HasUser:
		return malformed("CONNECT: a password without a user name")
	}
	return nil
}

// payload reads what follows the variable header.
func (c *Connect) payload(r *reader) (err error) {
	if c.ClientID, err = r.field(true); err != nil {
		return err
	}
	if c.HasWill {
		if err := c.will(r); err != nil {
			return err
		}
	}
	if c.HasUser {
		if c.User, err = r.field(true); err != nil {
			return err
		}
	}
	if c.HasPassword {
		if c.Password, err = r.field(false); err != nil {
			return err
		}
	}
	return r.end()
}

func (c *Connect) will(r *reader) (err error) {
	c.WillProperties.reset()
	if c.Version == V5 {
		if err := r.properties(will, &c.WillProperties); err != nil {
			return err
		}
		if err := c.WillProperties.checkResponse(CONNECT); err != nil {
			return err
		}
	}
	if c.WillTopic, err = r.field(true); err != nil {
		return err
	}
	if !validName(c.WillTopic) {
		return broken(InvalidTopic, "CONNECT: the will's topic is empty or has a wildcard")
	}
	c.WillOf, err = r.field(false)
	return err
}

// validName reports whether a string may be the name of a topic: it has no wildcard.
func validName(b []byte) bool { return len(b) > 0 && !bytes.ContainsAny(b, "+#") }

// Publish is a decoded PUBLISH packet.
type Publish struct {
	Dup, Retain bool
	QoS         byte
	Topic       []byte // empty: that of the alias
	ID          uint16 // 0 at QoS 0
	Properties  Properties
	Payload     []byte
}

// Decode decodes a PUBLISH packet.
func (m *Publish) Decode(v Version, p Packet) (err error) {
	r := reader{of: PUBLISH, b: p.Body}
	m.Dup, m.Retain, m.QoS, m.ID = p.First&dupFlag != 0, p.First&retainFlag != 0, p.First>>1&3, 0
	if m.Topic, err = r.field(true); err != nil {
		return err
	}
	if m.QoS > 0 {
		if m.ID, err = r.packetID(); err != nil {
			return err
		}
	}
	m.Properties.reset()
	if v == V5 {
		if err := r.properties(PUBLISH, &m.Properties); err != nil {
			return err
		}
		if err := m.Properties.checkResponse(PUBLISH); err != nil {
			return err
		}
	}
	m.Payload = r.b
	alias := m.Properties.Has(TopicAlias)
	switch {
	case alias && m.Properties.Number(TopicAlias, 0) == 0:
		return broken(InvalidAlias, "PUBLISH: topic alias 0")
	case len(m.Topic) == 0 && !alias:
		return broken(ProtocolError, "PUBLISH: neither a topic nor an alias of one")
	case len(m.Topic) > 0 && !validName(m.Topic):
		return broken(InvalidTopic, "PUBLISH: a wildcard in the name of a topic")
	}
	return nil
}

// Ack is a decoded PUBACK, PUBREC, PUBREL or PUBCOMP packet.
type Ack struct {
	ID         uint16
	Reason     Reason
	Properties Properties
}

// Decode decodes a PUBACK, PUBREC, PUBREL or PUBCOMP packet.
func (a *Ack) Decode(v Version, p Packet) (err error) {
	r := reader{of: p.Type(), b: p.Body}
	a.Reason = Success
	a.Properties.reset()
	if a.ID, err = r.packetID(); err != nil {
		return err
	}
	if v == V5 && len(r.b) > 0 {
		if err := r.reasonAndProperties(&a.Reason, &a.Properties); err != nil {
			return err
		}
	}
	return r.end()
}

func (r *reader) reasonAndProperties(reason *Reason, into *Properties) error {
	b, err := r.byte()
	if err != nil {
		return err
	}
	*reason = Reason(b)
	if len(r.b) == 0 {
		return nil
	}
	return r.properties(r.of, into)
}

// Filter is a subscription in a SUBSCRIBE packet.
type Filter struct {
	Name      []byte
	QoS       byte
	NoLocal   bool
	KeepFlag  bool // retain as published
	Retaining byte // retain handling: 0 send retained messages, 1 only for a new subscription, 2 do not
}

// Subscribe is a decoded SUBSCRIBE or UNSUBSCRIBE packet, of which the latter has only the filters' names.
type Subscribe struct {
	ID         uint16
	Properties Properties
	Filters    []Filter
}

// Decode decodes a SUBSCRIBE or UNSUBSCRIBE packet.
func (s *Subscribe) Decode(v Version, p Packet) (err error) {
	r := reader{of: p.Type(), b: p.Body}
	s.Filters = s.Filters[:0]
	s.Properties.reset()
	if s.ID, err = r.packetID(); err != nil {
		return err
	}
	if v == V5 {
		if err := r.properties(r.of, &s.Properties); err != nil {
			return err
		}
	}
	for len(r.b) > 0 {
		if len(s.Filters) == MaxFilters {
			return broken(Implementation, "%s: more than %d filters", r.of, MaxFilters)
		}
		f, err := r.filter(v)
		if err != nil {
			return err
		}
		s.Filters = append(s.Filters, f)
	}
	if len(s.Filters) == 0 {
		return broken(ProtocolError, "%s has no filter", r.of)
	}
	return nil
}

func (r *reader) filter(v Version) (f Filter, err error) {
	if f.Name, err = r.field(true); err != nil {
		return f, err
	}
	if len(f.Name) == 0 {
		return f, malformed("%s: an empty filter", r.of)
	}
	if r.of == UNSUBSCRIBE {
		return f, nil
	}
	o, err := r.byte()
	if err != nil {
		return f, err
	}
	f.QoS, f.NoLocal, f.KeepFlag, f.Retaining = o&3, o>>2&1 != 0, o>>3&1 != 0, o>>4&3
	switch {
	case f.QoS == 3 || o&0xc0 != 0 || v == V311 && o > 2:
		return f, malformed("SUBSCRIBE: the reserved options of a filter are set")
	case f.Retaining == 3:
		return f, broken(ProtocolError, "SUBSCRIBE: retain handling 3")
	}
	return f, nil
}

// Disconnect is a decoded DISCONNECT or AUTH packet.
type Disconnect struct {
	Reason     Reason
	Properties Properties
}

// Decode decodes a DISCONNECT or AUTH packet.
func (d *Disconnect) Decode(v Version, p Packet) error {
	r := reader{of: p.Type(), b: p.Body}
	d.Reason = Success
	d.Properties.reset()
	if v == V5 && len(r.b) > 0 {
		if err := r.reasonAndProperties(&d.Reason, &d.Properties); err != nil {
			return err
		}
	}
	return r.end()
}

// Empty reports an error for a packet that must have no body: PINGREQ.
func Empty(p Packet) error {
	r := reader{of: p.Type(), b: p.Body}
	return r.end()
}
