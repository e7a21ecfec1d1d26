package godwit

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
)

// received is one message from the server, or its error.
type received struct {
	frame pb.ServerFrame
	raw   []byte // if it cannot be read
}

// lenientCodec decodes a received with any content: an error of a codec would end the stream, and lose everything after the message.
type lenientCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c lenientCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize()
	if proto.Unmarshal(b, &r.frame) != nil {
		r.raw = b
	}
	return nil
}

// decodeProto decodes one message, or returns its error.
func decodeProto(b []byte) serverFrame {
	if r := quickRequest(b); r != nil {
		return serverFrame{Request: r}
	}
	var r received
	if proto.Unmarshal(b, &r.frame) != nil {
		r.raw = b
	}
	return r.serverFrame()
}

func (r *received) serverFrame() serverFrame {
	if r.raw == nil {
		return fromProto(&r.frame)
	}
	return salvageProto(r.raw)
}

// Field numbers in protobuf frames that are needed to report the error with its notification or object.
const (
	fieldNotification = 2
	fieldObject       = 6
)

var notificationTexts = map[protowire.Number]string{3: "id", 4: "title", 5: "body", 6: "category", 8: "content_type"}

var objectTexts = map[protowire.Number]string{1: "group", 2: "object", 6: "content_type"}

// salvageProto finds the notification or object of an unreadable message.
func salvageProto(b []byte) serverFrame {
	var kind protowire.Number
	var inner []byte
	whole := walk(b, true, func(field protowire.Number, v []byte, _ uint64) {
		if field == fieldNotification || field == fieldObject {
			kind, inner = field, v
		}
	})
	names := notificationTexts
	if kind == fieldObject {
		names = objectTexts
	}
	texts := make(map[string]string)
	attempt := 0
	var err error
	read := walk(inner, false, func(field protowire.Number, v []byte, n uint64) {
		name := names[field]
		switch {
		case kind == fieldNotification && field == 2:
			attempt = int(uint32(n))
		case name == "" || v == nil:
		case utf8.Valid(v):
			texts[name] = string(v)
		case err == nil:
			err = &memberError{name, "is not UTF-8"}
		}
	})
	if err == nil || !whole || !read {
		err = errors.New("is not protobuf")
	}
	switch kind {
	case fieldNotification:
		return unread(err, texts["id"], "", attempt)
	case fieldObject:
		return unread(err, "", objectKey{texts["group"], texts["object"]}.String(), 0)
	}
	return unread(err, "", "", 0)
}

// walk visits fields until the end, or until an invalid one; with broken, it also visits a truncated field.
func walk(b []byte, broken bool, visit func(field protowire.Number, v []byte, n uint64)) (whole bool) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				visit(field, nil, v)
			}
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				visit(field, v, 0)
			} else if _, head := protowire.ConsumeVarint(b); broken && head > 0 {
				visit(field, b[head:], 0)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
