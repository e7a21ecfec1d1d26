package gatetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notify/notification"
)

// ToProto turns a client frame in JSON into its protobuf message.
func ToProto(text string) (*godwitpb.ClientFrame, error) {
	var named map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &named); err != nil {
		return nil, err
	}
	for _, body := range named {
		for _, field := range []string{"after", "heartbeat"} {
			v, ok := body[field]
			if !ok {
				continue
			}
			d, err := notification.ParseDuration(fmt.Sprint(v))
			if err != nil {
				return nil, err
			}
			delete(body, field)
			body[field+"_ms"] = d.Milliseconds()
		}
	}
	if r := named["reply"]; r != nil {
		if err := replyToProto(r); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(named)
	if err != nil {
		return nil, err
	}
	m := new(godwitpb.ClientFrame)
	return m, protojson.Unmarshal(b, m)
}

// replyToProto converts an answer's data to bytes, and splits its headers into those that occur once and those that
// repeat.
func replyToProto(r map[string]any) error {
	if data, ok := r["data"]; ok {
		text, isText := data.(string)
		b := []byte(text)
		if r["content_type"] == nil {
			r["content_type"] = "application/json"
		}
		if !isText || notification.IsJSON(fmt.Sprint(r["content_type"])) {
			var err error
			if b, err = json.Marshal(data); err != nil {
				return err
			}
		}
		r["data"] = b
	}
	if encoded, ok := r["data_base64"]; ok {
		r["data"] = encoded
		delete(r, "data_base64")
	}
	var repeated []map[string]any
	headers, _ := r["headers"].(map[string]any)
	for name, v := range headers {
		if list, ok := v.([]any); ok {
			delete(headers, name)
			for _, one := range list {
				repeated = append(repeated, map[string]any{"name": name, "value": one})
			}
		}
	}
	if repeated != nil {
		r["header_fields"] = repeated
	}
	return nil
}

// FromProto turns a server frame into the JSON that the JSON gateways send.
func FromProto(m *godwitpb.ServerFrame) (string, error) {
	if req := m.GetRequest(); req != nil {
		return requestFromProto(req)
	}
	r := m.ProtoReflect()
	field := r.WhichOneof(r.Descriptor().Oneofs().ByName("frame"))
	if field == nil {
		return "", fmt.Errorf("%v has no frame", m)
	}
	body := map[string]any{}
	r.Get(field).Message().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name, ms := strings.CutSuffix(string(f.Name()), "_ms")
		switch {
		case f.Kind() == protoreflect.BytesKind:
			body[name] = json.RawMessage(v.Bytes())
		case f.Kind() == protoreflect.EnumKind:
			_, value, _ := strings.Cut(string(f.Enum().Values().ByNumber(v.Enum()).Name()), "_")
			body[name] = strings.ToLower(value)
		case name == "version":
			body[name] = v.String()
		case f.IsList():
			list := []string{}
			for i := range v.List().Len() {
				list = append(list, v.List().Get(i).String())
			}
			body[name] = list
		case ms && !strings.HasSuffix(name, "_at") && !strings.HasSuffix(name, "_time"):
			body[name] = fmt.Sprintf("%gs", float64(v.Int())/1000)
		default:
			body[name] = v.Interface()
		}
		return true
	})
	b, err := json.Marshal(map[string]any{string(field.Name()): body})
	return string(b), err
}

func requestFromProto(r *godwitpb.Request) (string, error) {
	headers := map[string]any{}
	for name, v := range r.GetHeaders() {
		headers[name] = v
	}
	for _, f := range r.GetHeaderFields() {
		list, _ := headers[f.GetName()].([]any)
		headers[f.GetName()] = append(list, f.GetValue())
	}
	body := map[string]any{
		"request_id": r.GetRequestId(), "subject": r.GetSubject(), "method": r.GetMethod(), "path": r.GetPath(), "query": r.GetQuery(),
		"headers": headers, "content_type": r.GetContentType(), "deadline": time.UnixMilli(r.GetDeadlineMs()).UTC(),
	}
	switch data := r.GetData(); {
	case notification.IsJSON(r.GetContentType()) && json.Valid(data):
		body["data"] = json.RawMessage(data)
	case utf8.Valid(data):
		body["data"] = string(data)
	default:
		body["data_base64"] = data
	}
	b, err := json.Marshal(map[string]any{"request": body})
	return string(b), err
}
