package frame

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/object"
)

// Field numbers of godwit.v1.ServerFrame.
const (
	fieldRegistered         protowire.Number = 4
	fieldRegistrationFailed protowire.Number = 5
	fieldObject             protowire.Number = 6
)

// checkObjects applies the rules of register, unregister and object_ack.
func (c *Client) checkObjects() error {
	if len(c.Group) > 0 && !isName(c.Group) {
		return nameError(c.Kind, "group", string(c.Group))
	}
	if c.Kind == KindObjectAck {
		if c.Version < 0 {
			return badField(c.Kind, "version", "must be from 1 to 2^63-1")
		}
		if !isName(c.Object) {
			return nameError(c.Kind, "object", string(c.Object))
		}
		return nil
	}
	if len(c.Objects) == 0 && !c.Reset {
		return badField(c.Kind, "objects", "is required")
	}
	for _, o := range c.Objects {
		if !isName(o) {
			return nameError(c.Kind, "objects", string(o))
		}
	}
	return nil
}

var registerFields = map[string]reader{
	"objects": readObjects, "group": readGroup,
	"reset": func(v json.RawMessage, c *Client) string { return readBool(v, &c.Reset) },
	"more":  func(v json.RawMessage, c *Client) string { return readBool(v, &c.More) },
}

func readObjects(v json.RawMessage, into *Client) string {
	names, problem := texts(v)
	if len(names) > MaxObjects {
		return fmt.Sprintf("has more than %d entries", MaxObjects)
	}
	for _, name := range names {
		into.Objects = append(into.Objects, []byte(name))
	}
	return problem
}

func readGroup(v json.RawMessage, into *Client) string {
	s, problem := text(v)
	into.Group = []byte(s)
	return problem
}

func readObject(v json.RawMessage, into *Client) string {
	s, problem := text(v)
	into.Object = []byte(s)
	return problem
}

func readVersion(v json.RawMessage, into *Client) (problem string) {
	var err error
	if into.Version, err = object.ParseVersion(string(v)); err != nil {
		return "must be a whole number from 1 to 2^63-1"
	}
	return ""
}

func readBool(v json.RawMessage, into *bool) string {
	s := string(v)
	if *into = s == "true"; !*into && s != "false" {
		return "must be true or false"
	}
	return ""
}

func (c *Client) setObjectBytes(num protowire.Number, v []byte) error {
	switch {
	case num == 1 && c.Kind == KindObjectAck:
		c.Object = v
		return checkText(c.Kind, "object", v)
	case num == 1 && len(c.Objects) == MaxObjects:
		return tooMany(c.Kind, "objects", MaxObjects)
	case num == 1:
		c.Objects = append(c.Objects, v)
		return checkText(c.Kind, "objects", v)
	case num == 2:
		c.Group = v
		return checkText(c.Kind, "group", v)
	}
	return nil
}

func (c *Client) setObjectVarint(num protowire.Number, v uint64) {
	switch {
	case c.Kind == KindObjectAck && num == 3:
		c.Version = object.Version(v)
	case c.Kind == KindRegister && num == 3:
		c.Reset = v != 0
	case c.Kind == KindRegister && num == 4:
		c.More = v != 0
	}
}

// Registered confirms registrations, or the end of some, and gives the digest of the whole set.
type Registered struct {
	Group   string
	Objects []string
	Digest  string
}

// AppendRegistered appends a registered frame.
func AppendRegistered(dst []byte, f Format, r *Registered) []byte {
	if f == Proto {
		dst = protowire.AppendTag(dst, fieldRegistered, protowire.BytesType)
		body := len(dst)
		dst = appendProtoStrings(dst, 1, r.Objects)
		dst = appendProtoString(dst, 2, r.Digest)
		return putLength(appendProtoString(dst, 3, r.Group), body)
	}
	dst = appendStrings(append(open(dst, f, "registered"), `{"objects":`...), r.Objects)
	dst = appendString(append(dst, `,"digest":`...), r.Digest)
	return end(append(appendText(dst, "group", r.Group), '}'), f)
}

// RegistrationFailed refuses registrations: for good, which leaves both digests without them, or for now.
type RegistrationFailed struct {
	Group     string
	Objects   []string
	Code      string
	Transient bool
}

// AppendRegistrationFailed appends a registration_failed frame.
func AppendRegistrationFailed(dst []byte, f Format, r *RegistrationFailed) []byte {
	if f == Proto {
		dst = protowire.AppendTag(dst, fieldRegistrationFailed, protowire.BytesType)
		body := len(dst)
		dst = appendProtoStrings(dst, 1, r.Objects)
		dst = appendProtoString(dst, 2, r.Code)
		dst = appendProtoInt(dst, 3, protoBool(r.Transient))
		return putLength(appendProtoString(dst, 4, r.Group), body)
	}
	dst = appendStrings(append(open(dst, f, "registration_failed"), `{"objects":`...), r.Objects)
	dst = appendString(append(dst, `,"code":`...), r.Code)
	dst = strconv.AppendBool(append(dst, `,"transient":`...), r.Transient)
	return end(append(appendText(dst, "group", r.Group), '}'), f)
}

// Object makes an object frame. It is the same for every receiver: encode it once per format and share it.
func Object(f Format, k object.Key, s *object.State) []byte {
	dst := make([]byte, 0, 96+len(k.Group)+len(k.Object)+len(s.Payload)+len(s.ContentType))
	if f == Proto {
		return slices.Clip(appendMessage(dst, fieldObject, protoObject(k, s)))
	}
	dst = appendString(append(open(dst, f, "object"), `{"group":`...), k.Group)
	dst = appendString(append(dst, `,"object":`...), k.Object)
	if s.Version > 0 {
		dst = append(strconv.AppendInt(append(dst, `,"version":"`...), int64(s.Version), 10), '"')
	}
	dst = appendPayload(dst, s.Payload, s.ContentType)
	dst = strconv.AppendBool(append(dst, `,"unknown":`...), !s.Known)
	return slices.Clip(end(append(dst, '}'), f))
}

func protoObject(k object.Key, s *object.State) []byte {
	var room [smallFrame]byte
	m := appendProtoString(room[:0], 1, k.Group)
	m = appendProtoString(m, 2, k.Object)
	m = appendProtoInt(m, 3, int64(s.Version))
	if len(s.Payload) > 0 {
		m = protowire.AppendTag(m, 4, protowire.BytesType)
		m = protowire.AppendBytes(m, s.Payload)
	}
	m = appendProtoInt(m, 5, protoBool(!s.Known))
	if len(s.Payload) == 0 {
		return m
	}
	return appendProtoString(m, 6, s.ContentType)
}

// appendPayload is appendData by another name.
func appendPayload(dst, payload []byte, contentType string) []byte {
	if len(payload) == 0 {
		return dst
	}
	text := utf8.Valid(payload)
	switch {
	case text && notification.IsJSON(contentType):
		dst = appendJSONText(append(dst, `,"payload":`...), payload)
		if contentType == jsonType {
			return dst
		}
	case text:
		dst = appendString(append(dst, `,"payload":`...), payload)
	default:
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"payload_base64":"`...), payload)
		dst = append(dst, '"')
	}
	return appendText(dst, "content_type", contentType)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

func appendProtoStrings(dst []byte, num protowire.Number, list []string) []byte {
	for _, s := range list {
		dst = protowire.AppendTag(dst, num, protowire.BytesType)
		dst = protowire.AppendString(dst, s)
	}
	return dst
}

func protoBool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
