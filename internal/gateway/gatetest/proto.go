package gatetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notification"
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
	b, err := json.Marshal(named)
	if err != nil {
		return nil, err
	}
	m := new(godwitpb.ClientFrame)
	return m, protojson.Unmarshal(b, m)
}

// FromProto turns a server frame into the JSON that the JSON gateways send.
func FromProto(m *godwitpb.ServerFrame) (string, error) {
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
