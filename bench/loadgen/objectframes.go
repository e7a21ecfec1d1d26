package loadgen

import (
	"bytes"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

func (s *Subscribers) json() bool { return s.cfg.Transport == WebSocketJSON }

// Field numbers of godwit.v1.ClientFrame, Register and ObjectAck.
const (
	fieldRegister  = 4
	fieldObjectAck = 6

	registerObjects = 1
	registerReset   = 3
	registerMore    = 4

	objectAckObject  = 1
	objectAckVersion = 3
)

func (s *Subscribers) registerFrame(names []string, more bool) []byte {
	if s.json() {
		b := []byte(`{"register":{"objects":[`)
		for i, n := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendQuote(b, n)
		}
		return append(strconv.AppendBool(append(b, `],"reset":true,"more":`...), more), "}}"...)
	}
	var m []byte
	for _, n := range names {
		m = protowire.AppendString(protowire.AppendTag(m, registerObjects, protowire.BytesType), n)
	}
	m = protowire.AppendVarint(protowire.AppendTag(m, registerReset, protowire.VarintType), 1)
	m = protowire.AppendVarint(protowire.AppendTag(m, registerMore, protowire.VarintType), protowire.EncodeBool(more))
	return protowire.AppendBytes(protowire.AppendTag(nil, fieldRegister, protowire.BytesType), m)
}

func (s *Subscribers) objectAckFrame(name []byte, version uint64) []byte {
	if s.json() {
		return fmt.Appendf(nil, `{"object_ack":{"object":"%s","version":"%d"}}`, name, version)
	}
	m := protowire.AppendBytes(protowire.AppendTag(nil, objectAckObject, protowire.BytesType), name)
	m = protowire.AppendVarint(protowire.AppendTag(m, objectAckVersion, protowire.VarintType), version)
	return protowire.AppendBytes(protowire.AppendTag(nil, fieldObjectAck, protowire.BytesType), m)
}

// readObjectJSON parses the frames about objects. It relies on the order in which the server writes fields.
func readObjectJSON(b []byte) (a arrival, err error) {
	if bytes.HasPrefix(b, []byte(`{"registration_failed":`)) {
		a.kind = refusal
		return a, nil
	}
	rest, ok := bytes.CutPrefix(b, []byte(`{"object":`))
	if !ok {
		a.kind, a.digest = agreement, digestJSON(b)
		return a, nil
	}
	a.kind = signal
	a.id = textAfter(rest, `"object":"`)
	a.unknown = bytes.HasSuffix(b, []byte(`"unknown":true}}`))
	if v := textAfter(rest, `"version":"`); v != nil {
		if a.seq, err = strconv.ParseUint(string(v), 10, 63); err != nil {
			return a, errFrame
		}
	}
	if len(a.id) == 0 || a.seq == 0 && !a.unknown {
		return a, errFrame
	}
	a.due = findStamp(rest)
	return a, nil
}

func digestJSON(b []byte) []byte { return textAfter(b, `"digest":"`) }

// textAfter returns the string after a key; nil: the key is absent.
func textAfter(b []byte, key string) []byte {
	_, b, ok := bytes.Cut(b, []byte(key))
	if !ok {
		return nil
	}
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil
	}
	return b[:end]
}

// Field numbers of godwit.v1.ServerFrame and its messages.
const (
	fieldRegistered         = 4
	fieldRegistrationFailed = 5
	fieldObject             = 6
	fieldPong               = 9

	welcomeDigest    = 5
	registeredDigest = 2
	pongDigest       = 1

	objectName    = 2
	objectVersion = 3
	objectPayload = 4
	objectUnknown = 5
)

// digestFields maps each kind of frame to the field number of its digest.
var digestFields = map[protowire.Number]protowire.Number{
	fieldWelcome: welcomeDigest, fieldRegistered: registeredDigest, fieldPong: pongDigest,
}

func readObjectProto(num protowire.Number, b []byte) (a arrival, err error) {
	switch num {
	case fieldRegistrationFailed:
		a.kind = refusal
		return a, nil
	case fieldObject:
		a.kind = signal
	default:
		a.kind = agreement
	}
	err = eachField(b, func(field protowire.Number, value []byte) {
		switch {
		case a.kind == agreement && field == digestFields[num]:
			a.digest, _ = protowire.ConsumeBytes(value)
		case a.kind == agreement:
		case field == objectName:
			a.id, _ = protowire.ConsumeBytes(value)
		case field == objectVersion:
			a.seq, _ = protowire.ConsumeVarint(value)
		case field == objectPayload:
			payload, _ := protowire.ConsumeBytes(value)
			a.due = findStamp(payload)
		case field == objectUnknown:
			v, _ := protowire.ConsumeVarint(value)
			a.unknown = v != 0
		}
	})
	return a, err
}

// eachField walks over a message.
func eachField(b []byte, do func(protowire.Number, []byte)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errFrame
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, value); n < 0 {
			return errFrame
		}
		do(num, value)
		b = value[n:]
	}
	return nil
}
