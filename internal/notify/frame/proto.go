package frame

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// DecodeProto decodes a godwit.v1.ClientFrame. Unknown fields are ignored; of several frames in one message the last one counts, as
// protobuf requires. A returned error is an *Error.
func DecodeProto(b []byte, into *Client) error {
	into.reset(0)
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return wireError(n)
		}
		b = b[n:]
		if typ != protowire.BytesType || num < protowire.Number(KindHello) || num > protowire.Number(KindPing) {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return wireError(n)
			}
			b = b[n:]
			continue
		}
		body, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return wireError(n)
		}
		b = b[n:]
		if k := Kind(num); k != into.Kind { // a repeated frame of the same kind is merged into the earlier one
			into.reset(k)
		}
		if err := into.mergeProto(body); err != nil {
			return into.toRequest(err, func() []byte { return requestIDProto(body) })
		}
	}
	if err := into.check(); err != nil {
		return into.toRequest(err, func() []byte { return into.Reply.RequestID })
	}
	return nil
}

// mergeProto reads the fields of one frame.
func (c *Client) mergeProto(b []byte) error {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return wireError(n)
		}
		b = b[n:]
		var err error
		switch typ {
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				err = c.setBytes(num, v)
			}
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				c.setVarint(num, v)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return wireError(n)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (c *Client) setBytes(num protowire.Number, v []byte) error {
	switch c.Kind {
	case KindHello:
		return c.Hello.setBytes(num, v)
	case KindAck, KindNack:
		switch {
		case num == 1 && len(c.IDs) == MaxIDs:
			return tooMany(c.Kind, "ids", MaxIDs)
		case num == 1:
			c.IDs = append(c.IDs, v)
		case num == 3 && c.Kind == KindNack:
			c.Reason = v
			return checkText(c.Kind, "reason", v)
		}
	case KindPing:
		if num == 1 {
			c.Digest = v
			return checkText(c.Kind, "digest", v)
		}
	case KindRegister, KindUnregister, KindObjectAck:
		return c.setObjectBytes(num, v)
	case KindSubscribe, KindUnsubscribe:
		return c.setPatternBytes("topics", num, v)
	case KindServe, KindUnserve:
		return c.setPatternBytes("subjects", num, v)
	case KindReply:
		return c.Reply.setBytes(num, v)
	}
	return nil
}

// checkText refuses bytes that protobuf refuses in a string. A field may occur twice: the first value must be valid too, although only the
// last one counts.
func checkText(k Kind, field string, v []byte) error {
	if !utf8.Valid(v) {
		return badField(k, field, "is not valid UTF-8")
	}
	return nil
}

// helloTexts are the names of the string fields of a hello, by field number.
var helloTexts = [...]string{1: "app", 2: "token", 3: "recipient", 4: "group", 5: "device", 6: "digest", 7: "held"}

func (h *Hello) setBytes(num protowire.Number, v []byte) error {
	if int(num) < len(helloTexts) {
		if err := checkText(KindHello, helloTexts[num], v); err != nil {
			return err
		}
	}
	switch num {
	case 1:
		h.App = string(v)
	case 2:
		h.Token = string(v)
	case 3:
		h.Recipient = string(v)
	case 4:
		h.Group = string(v)
	case 5:
		h.Device = string(v)
	case 6:
		h.Digest = string(v)
	case 7:
		if len(h.Held) == MaxHeld {
			return tooMany(KindHello, "held", MaxHeld)
		}
		h.Held = append(h.Held, string(v))
	}
	return nil
}

func (c *Client) setVarint(num protowire.Number, v uint64) {
	switch {
	case c.Kind == KindHello && num == 8:
		c.Hello.Window = int(uint32(v)) // protobuf's rule for uint32: only the low 32 bits count
	case c.Kind == KindHello && num == 9:
		c.Hello.Heartbeat = millis(v)
	case c.Kind == KindHello && num == 10:
		c.Hello.Observe = v != 0
	case c.Kind == KindNack && num == 2:
		c.After = millis(v)
	case c.Kind == KindRegister || c.Kind == KindUnregister || c.Kind == KindObjectAck:
		c.setObjectVarint(num, v)
	case c.Kind == KindReply && num == 3:
		c.Reply.Status = int(int32(v)) // the wire's rule for int32: the low bits count
	}
}

func wireError(n int) error {
	return frameError("not a protobuf ClientFrame: %v", protowire.ParseError(n))
}

// consumeTag does the same as protowire.ConsumeTag, but refuses field numbers beyond the last legal one.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	num, typ, n := protowire.ConsumeTag(b)
	if n >= 0 && num > protowire.MaxValidNumber {
		return 0, 0, errBadNumber
	}
	return num, typ, n
}

const errBadNumber = -2 // protowire's code for an invalid field number
