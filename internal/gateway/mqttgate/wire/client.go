package wire

import "encoding/binary"

// The client's side of the format, for tests and load generators.

// AppendConnect appends a CONNECT packet. Properties and WillProperties of c are ignored: they are given encoded.
func AppendConnect(dst []byte, c *Connect, props, willProps []byte) []byte {
	body := appendField(nil, "MQTT")
	body = append(body, byte(c.Version), c.flags())
	body = binary.BigEndian.AppendUint16(body, c.KeepAlive)
	if c.Version == V5 {
		body = appendBlock(body, props)
	}
	body = appendField(body, c.ClientID)
	if c.HasWill {
		if c.Version == V5 {
			body = appendBlock(body, willProps)
		}
		body = appendField(appendField(body, c.WillTopic), c.WillOf)
	}
	if c.HasUser {
		body = appendField(body, c.User)
	}
	if c.HasPassword {
		body = appendField(body, c.Password)
	}
	return append(appendHead(dst, CONNECT, len(body)), body...)
}

func (c *Connect) flags() (f byte) {
	for _, one := range []struct {
		on   bool
		flag byte
	}{
		{c.Clean, cleanFlag},
		{c.HasWill, willFlag | c.WillQoS<<3},
		{c.HasWill && c.WillRetain, willRetainFlag},
		{c.HasUser, userFlag},
		{c.HasPassword, passwordFlag},
	} {
		if one.on {
			f |= one.flag
		}
	}
	return f
}

// AppendSubscribe appends a SUBSCRIBE packet.
func AppendSubscribe(dst []byte, v Version, id uint16, props []byte, filters ...Filter) []byte {
	body := binary.BigEndian.AppendUint16(nil, id)
	if v == V5 {
		body = appendBlock(body, props)
	}
	for _, f := range filters {
		options := f.QoS | f.Retaining<<4
		if f.NoLocal {
			options |= 1 << 2
		}
		if f.KeepFlag {
			options |= 1 << 3
		}
		body = append(appendField(body, f.Name), options)
	}
	return append(appendHead(dst, SUBSCRIBE, len(body)), body...)
}

// AppendUnsubscribe appends an UNSUBSCRIBE packet.
func AppendUnsubscribe(dst []byte, v Version, id uint16, filters ...string) []byte {
	body := binary.BigEndian.AppendUint16(nil, id)
	if v == V5 {
		body = appendBlock(body, nil)
	}
	for _, f := range filters {
		body = appendField(body, f)
	}
	return append(appendHead(dst, UNSUBSCRIBE, len(body)), body...)
}

// Connack is a decoded CONNACK packet.
type Connack struct {
	Present    bool
	Reason     Reason // for 3.1.1 the return code
	Properties Properties
}

// Decode decodes a CONNACK packet.
func (c *Connack) Decode(v Version, p Packet) error {
	r := reader{of: CONNACK, b: p.Body}
	c.Properties.reset()
	present, err := r.byte()
	if err != nil {
		return err
	}
	if present > 1 {
		return malformed("CONNACK: the reserved flags are set")
	}
	c.Present = present == 1
	reason, err := r.byte()
	if err != nil {
		return err
	}
	c.Reason = Reason(reason)
	if v == V5 {
		if err := r.properties(CONNACK, &c.Properties); err != nil {
			return err
		}
	}
	return r.end()
}

// Suback is a decoded SUBACK or UNSUBACK packet.
type Suback struct {
	ID         uint16
	Reasons    []Reason
	Properties Properties
}

// Decode decodes a SUBACK or UNSUBACK packet.
func (s *Suback) Decode(v Version, p Packet) (err error) {
	r := reader{of: p.Type(), b: p.Body}
	s.Properties.reset()
	s.Reasons = s.Reasons[:0]
	if s.ID, err = r.packetID(); err != nil {
		return err
	}
	if v == V5 {
		if err := r.properties(r.of, &s.Properties); err != nil {
			return err
		}
	}
	for _, b := range r.b {
		s.Reasons = append(s.Reasons, Reason(b))
	}
	return nil
}
