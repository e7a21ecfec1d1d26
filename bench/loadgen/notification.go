package loadgen

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// arrival is the part of a frame that a subscriber needs. Its slices refer to the frame's buffer.
type arrival struct {
	kind    kind
	seq     uint64
	attempt uint64
	id      []byte // of an object: its name
	due     int64
	digest  []byte // of the server's registrations
	unknown bool   // the signal names no version; otherwise seq holds the object's version
}

type kind uint8

const (
	other kind = iota // nothing to do: recall, pong
	welcome
	notification
	goodbye
	failure
	agreement // a frame with the server's digest of the registrations
	signal
	refusal // of registrations
	gap     // seq messages were dropped
)

var errFrame = errors.New("the server sent a frame that cannot be read")

// readJSON parses a JSON frame. It relies on the order in which the server writes fields.
func readJSON(b []byte) (a arrival, err error) {
	switch {
	case bytes.HasPrefix(b, []byte(`{"notification":`)):
		return readNotificationJSON(b[len(`{"notification":`):])
	case bytes.HasPrefix(b, []byte(`{"welcome":`)):
		a.kind, a.digest = welcome, digestJSON(b)
	case bytes.HasPrefix(b, []byte(`{"object":`)), bytes.HasPrefix(b, []byte(`{"regist`)), bytes.HasPrefix(b, []byte(`{"pong":`)):
		return readObjectJSON(b)
	case bytes.HasPrefix(b, []byte(`{"goodbye":`)):
		a.kind = goodbye
	case bytes.HasPrefix(b, []byte(`{"error":`)):
		a.kind = failure
	}
	return a, nil
}

// readNotificationJSON parses the inner object, which SSE sends without the frame around it.
func readNotificationJSON(b []byte) (a arrival, err error) {
	a.kind = notification
	var ok bool
	if a.seq, b, ok = number(b, `"seq":`); !ok {
		return a, errFrame
	}
	if a.attempt, b, ok = number(b, `"attempt":`); !ok {
		return a, errFrame
	}
	i := bytes.Index(b, []byte(`"id":"`))
	if i < 0 {
		return a, errFrame
	}
	b = b[i+len(`"id":"`):]
	end := bytes.IndexByte(b, '"')
	if end <= 0 {
		return a, errFrame
	}
	a.id = b[:end]
	a.due = findStamp(b[end:])
	return a, nil
}

// number parses the number after key, which must stand near the beginning of b.
func number(b []byte, key string) (n uint64, rest []byte, ok bool) {
	i := bytes.Index(b[:min(len(b), 64)], []byte(key))
	if i < 0 {
		return 0, b, false
	}
	i += len(key)
	at := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + uint64(b[i]-'0')
		i++
	}
	return n, b[i:], i > at
}

// Field numbers of godwit.v1.ServerFrame and Notification.
const (
	fieldWelcome      = 1
	fieldNotification = 2
	fieldGoodbye      = 10
	fieldError        = 11

	noteSeq     = 1
	noteAttempt = 2
	noteID      = 3
	noteData    = 7
)

// readProto reads a godwit.v1.ServerFrame.
func readProto(b []byte) (a arrival, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || typ != protowire.BytesType {
		return a, errFrame
	}
	body, n := protowire.ConsumeBytes(b[n:])
	if n < 0 {
		return a, errFrame
	}
	switch num {
	case fieldWelcome:
		a, err = readObjectProto(num, body)
		a.kind = welcome
		return a, err
	case fieldRegistered, fieldRegistrationFailed, fieldObject, fieldPong:
		return readObjectProto(num, body)
	case fieldGoodbye:
		a.kind = goodbye
	case fieldError:
		a.kind = failure
	case fieldNotification:
		return readNotificationProto(body)
	}
	return a, nil
}

func readNotificationProto(b []byte) (a arrival, err error) {
	a.kind = notification
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return a, errFrame
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, value); n < 0 {
			return a, errFrame
		}
		b = value[n:]
		switch num {
		case noteSeq:
			a.seq, _ = protowire.ConsumeVarint(value)
		case noteAttempt:
			a.attempt, _ = protowire.ConsumeVarint(value)
		case noteID:
			a.id, _ = protowire.ConsumeBytes(value)
		case noteData:
			data, _ := protowire.ConsumeBytes(value)
			a.due = findStamp(data)
			return a, nil // the rest is not needed here
		}
	}
	return a, nil
}
