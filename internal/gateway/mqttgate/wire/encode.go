package wire

import "encoding/binary"

// appendField appends a string or binary data. Longer values than a packet can hold are cut.
func appendField[T string | []byte](dst []byte, v T) []byte {
	n := min(len(v), maxString)
	return append(binary.BigEndian.AppendUint16(dst, uint16(n)), v[:n]...) // at most maxString
}

// appendHead appends a fixed header.
func appendHead(dst []byte, t Type, remaining int) []byte {
	return appendVarint(append(dst, byte(t)<<4|flags[t]), remaining)
}

// appendBlock appends properties with their length.
func appendBlock(dst, props []byte) []byte {
	return append(appendVarint(dst, len(props)), props...)
}

func blockSize(props []byte) int { return varintSize(len(props)) + len(props) }

// ReturnCode is the code in a CONNACK of 3.1.1 (its section 3.2.2.3).
func ReturnCode(r Reason) byte {
	switch r {
	case Success:
		return 0
	case UnsupportedVersion:
		return 1
	case InvalidClientID:
		return 2
	case BadUserPassword, BadAuthMethod:
		return 4
	case NotAuthorized, Banned, ProtocolError, InvalidTopic, InvalidPayload, RetainUnsupported, QoSUnsupported:
		return 5
	default:
		return 3 // unavailable
	}
}

// AppendConnack appends a CONNACK. props are encoded properties, for MQTT 5 only.
func AppendConnack(dst []byte, v Version, present bool, r Reason, props []byte) []byte {
	session := byte(0)
	if present {
		session = 1
	}
	if v == V311 {
		return append(appendHead(dst, CONNACK, 2), session, ReturnCode(r))
	}
	dst = append(appendHead(dst, CONNACK, 2+blockSize(props)), session, byte(r))
	return appendBlock(dst, props)
}

// Head is what comes before the payload of a PUBLISH packet.
type Head struct {
	Dup, Retain bool
	QoS         byte
	ID          uint16 // at QoS 1 and 2
	Topic       string
	Properties  []byte // encoded, for MQTT 5 only
}

// AppendPublish appends a PUBLISH packet up to its payload, which has size bytes and follows.
func AppendPublish(dst []byte, v Version, h *Head, size int) []byte {
	first := byte(PUBLISH)<<4 | h.QoS<<1
	if h.Dup {
		first |= dupFlag
	}
	if h.Retain {
		first |= retainFlag
	}
	dst = appendVarint(append(dst, first), h.Remaining(v)+size)
	dst = appendField(dst, h.Topic)
	if h.QoS > 0 {
		dst = binary.BigEndian.AppendUint16(dst, h.ID)
	}
	if v == V5 {
		dst = appendBlock(dst, h.Properties)
	}
	return dst
}

// Remaining is the size of the packet without its fixed header and payload.
func (h *Head) Remaining(v Version) int {
	n := 2 + min(len(h.Topic), maxString)
	if h.QoS > 0 {
		n += 2
	}
	if v == V5 {
		n += blockSize(h.Properties)
	}
	return n
}

// Size is the size of the whole packet with a payload of size bytes.
func (h *Head) Size(v Version, size int) int {
	n := h.Remaining(v) + size
	return 1 + varintSize(n) + n
}

// AppendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP.
func AppendAck(dst []byte, v Version, t Type, id uint16, r Reason, props []byte) []byte {
	switch {
	case v == V311 || r == Success && len(props) == 0: // section 3.4.2.1
		return binary.BigEndian.AppendUint16(appendHead(dst, t, 2), id)
	case len(props) == 0:
		return append(binary.BigEndian.AppendUint16(appendHead(dst, t, 3), id), byte(r))
	}
	dst = binary.BigEndian.AppendUint16(appendHead(dst, t, 3+blockSize(props)), id)
	return appendBlock(append(dst, byte(r)), props)
}

// AppendSuback appends a SUBACK or UNSUBACK with one reason for each filter. For 3.1.1 every failure has the same code, and UNSUBACK has none.
func AppendSuback(dst []byte, v Version, t Type, id uint16, reasons []Reason, props []byte) []byte {
	n := 2
	if v == V5 {
		n += blockSize(props)
	}
	if v == V5 || t == SUBACK {
		n += len(reasons)
	}
	dst = binary.BigEndian.AppendUint16(appendHead(dst, t, n), id)
	if v == V5 {
		dst = appendBlock(dst, props)
	}
	for _, r := range reasons {
		switch {
		case v == V5:
			dst = append(dst, byte(r))
		case t != SUBACK:
		case r.Failed():
			dst = append(dst, byte(Unspecified))
		default:
			dst = append(dst, byte(r))
		}
	}
	return dst
}

// AppendDisconnect appends a DISCONNECT. A server of 3.1.1 sends none.
func AppendDisconnect(dst []byte, v Version, r Reason, props []byte) []byte {
	switch {
	case v == V311 || r == Success && len(props) == 0:
		return appendHead(dst, DISCONNECT, 0)
	case len(props) == 0:
		return append(appendHead(dst, DISCONNECT, 1), byte(r))
	}
	return appendBlock(append(appendHead(dst, DISCONNECT, 1+blockSize(props)), byte(r)), props)
}

// Packets without a body.
var (
	PingRequest  = []byte{byte(PINGREQ) << 4, 0}
	PingResponse = []byte{byte(PINGRESP) << 4, 0}
)
