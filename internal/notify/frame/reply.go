package frame

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of requests and their answers. They are part of the public contract.
const (
	MaxBody        = 1 << 20  // bytes of a request or an answer
	MaxHeaderBytes = 16 << 10 // bytes of all header names and values together
)

const (
	minStatus, maxStatus = 200, 599 // range of final HTTP statuses (RFC 9110, section 15)
	maxRequestID         = 64       // ours have 22
)

// Reply answers a request, or a notification that asked for a reply.
type Reply struct {
	RequestID, ID []byte // one of them is set
	Status        int    // 200 to 599
	Headers       Headers
	ContentType   string
	Data          []byte // borrowed, like the frame's other byte slices
	Broken        bool   // the reply broke a rule: only RequestID is set

	text content
}

// content is data as written in JSON. Its form depends on the content type, which may come before or after it.
type content struct {
	given, encoded bool
	raw            json.RawMessage
	base64         string
}

var replyFields = map[string]reader{
	"request_id": func(v json.RawMessage, c *Client) string { return readBytes(v, &c.Reply.RequestID) },
	"id":         func(v json.RawMessage, c *Client) string { return readBytes(v, &c.Reply.ID) },
	"status": func(v json.RawMessage, c *Client) string {
		var n int32
		if json.Unmarshal(v, &n) != nil || n < minStatus || n > maxStatus {
			return badStatus
		}
		c.Reply.Status = int(n)
		return ""
	},
	"headers": func(v json.RawMessage, c *Client) (problem string) {
		c.Reply.Headers, problem = readHeaders(v)
		return problem
	},
	"content_type": func(v json.RawMessage, c *Client) (problem string) {
		c.Reply.ContentType, problem = text(v)
		return problem
	},
	"data": func(v json.RawMessage, c *Client) string {
		c.Reply.text.given, c.Reply.text.raw = true, v
		return ""
	},
	"data_base64": func(v json.RawMessage, c *Client) (problem string) {
		c.Reply.text.encoded = true
		c.Reply.text.base64, problem = text(v)
		return problem
	},
}

var badStatus = fmt.Sprintf("must be a whole number between %d and %d", minStatus, maxStatus)

func readBytes(v json.RawMessage, into *[]byte) string {
	s, problem := text(v)
	*into = []byte(s)
	return problem
}

// toRequest adds to a reply's error the id of the request that the reply tried to answer. find searches the whole frame for the id, since
// the decoders stop at the first fault.
func (c *Client) toRequest(err error, find func() []byte) error {
	var e *Error
	if c.Kind != KindReply || !errors.As(err, &e) {
		return err
	}
	if id := find(); len(id) <= maxRequestID {
		e.Request = string(id)
	}
	return err
}

// requestID returns the request's id from the fields of a JSON reply.
func requestID(fields []member) (id []byte) {
	for _, f := range fields {
		if f.name == "request_id" && readBytes(f.value, &id) != "" {
			return nil
		}
	}
	return id
}

// requestIDProto returns the request's id from a protobuf reply.
func requestIDProto(b []byte) (id []byte) {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return id
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return id
		}
		if num == 1 && typ == protowire.BytesType {
			id, _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
	}
	return id
}

func (r *Reply) check() error {
	if problem, field := r.settle(); problem != "" {
		return badField(KindReply, field, problem)
	}
	if r.Status == 0 {
		r.Status = minStatus
	}
	switch {
	case (len(r.RequestID) > 0) == (len(r.ID) > 0):
		return badField(KindReply, "request_id", "or id must be given, and not both")
	case len(r.RequestID) > maxRequestID:
		return badField(KindReply, "request_id", "is not one of a request")
	case len(r.ID) > 0 && !isName(r.ID):
		return nameError(KindReply, "id", string(r.ID))
	case r.Status < minStatus || r.Status > maxStatus:
		return badField(KindReply, "status", badStatus)
	case !mediaType(r.ContentType):
		return badField(KindReply, "content_type", fmt.Sprintf("must be a media type of at most %d ASCII characters", notification.MaxNameBytes))
	case len(r.Data) > MaxBody:
		return badField(KindReply, "data", fmt.Sprintf("has %d bytes; at most %d are allowed", len(r.Data), MaxBody))
	}
	if problem := r.Headers.Check(); problem != "" {
		return badField(KindReply, "headers", problem)
	}
	return nil
}

// mediaType reports whether a text is allowed as a content type. An empty one means that no type is given.
func mediaType(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= notification.MaxNameBytes
}

// settle decodes the data of a JSON frame, by the rules of a publish.
func (r *Reply) settle() (problem, field string) {
	if r.ContentType == "" { // workers built on HTTP put the type among the headers
		r.ContentType = r.Headers.contentType()
	}
	d := r.text
	var err error
	switch {
	case d.given && d.encoded:
		return "cannot be given beside data", "data_base64"
	case d.encoded:
		if r.Data, err = base64.StdEncoding.DecodeString(d.base64); err != nil {
			return "is not base64", "data_base64"
		}
	case !d.given:
	case r.ContentType == "":
		r.Data, r.ContentType = d.raw, jsonType
	case notification.IsJSON(r.ContentType):
		r.Data = d.raw
	default:
		s, wrong := text(d.raw)
		if wrong != "" {
			return "must be a string, since content_type is not JSON", "data"
		}
		r.Data = []byte(s)
	}
	r.text = content{}
	return "", ""
}

func (r *Reply) setBytes(num protowire.Number, v []byte) error {
	switch num {
	case 1:
		r.RequestID = v
		return checkText(KindReply, "request_id", v)
	case 2:
		r.ID = v
		return checkText(KindReply, "id", v)
	case 4, 7:
		name, value, err := headerField(v)
		if err != nil {
			return err
		}
		if r.Headers == nil {
			r.Headers = make(Headers)
		}
		if num == 4 {
			r.Headers[name] = []string{value}
		} else {
			r.Headers[name] = append(r.Headers[name], value)
		}
	case 5:
		r.Data = v
	case 6:
		r.ContentType = string(v)
		return checkText(KindReply, "content_type", v)
	}
	return nil
}

// headerField reads an entry of a protobuf map, or a godwit.v1.HeaderField, which has the same encoding.
func headerField(b []byte) (name, value string, err error) {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return "", "", wireError(n)
		}
		b = b[n:]
		if typ == protowire.BytesType && (num == 1 || num == 2) {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return "", "", wireError(n)
			}
			if !utf8.Valid(v) {
				return "", "", badField(KindReply, "headers", "are not valid UTF-8")
			}
			b = b[n:]
			if num == 1 {
				name = string(v)
			} else {
				value = string(v)
			}
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return "", "", wireError(n)
		}
		b = b[n:]
	}
	return name, value, nil
}
