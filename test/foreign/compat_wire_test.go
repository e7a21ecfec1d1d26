package foreign

import (
	_ "embed"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

//go:embed service.proto
var protoText string

const (
	service             = "/notification_service.Notification/"
	streamPayload       = service + "StreamPayload"
	serverStreamPayload = service + "ServerStreamPayload"
	quoteRespond        = service + "QuoteRespond"
	quoteStreamWithID   = service + "QuoteRespondStreamWithId"
	quoteWithID         = service + "QuoteRespondWithId"
)

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{$`)
	fieldLine   = regexp.MustCompile(`^  (\w+) (\w+) = (\d+);$`)
	scalars     = map[string]descriptorpb.FieldDescriptorProto_Type{
		"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
		"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32,
	}
)

// describe reads service.proto.
func describe() *descriptorpb.FileDescriptorProto {
	const pkg = "notification_service"
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("service.proto"), Package: proto.String(pkg), Syntax: proto.String("proto3")}
	for line := range strings.Lines(protoText) {
		line = strings.TrimRight(line, "\n")
		if m := messageLine.FindStringSubmatch(line); m != nil {
			file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(m[1])})
		}
		if f := fieldLine.FindStringSubmatch(line); f != nil {
			number, _ := strconv.ParseInt(f[3], 10, 32)
			field := &descriptorpb.FieldDescriptorProto{
				Name: proto.String(f[2]), Number: proto.Int32(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}
			if scalar, ok := scalars[f[1]]; ok {
				field.Type = scalar.Enum()
			} else {
				field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+pkg+"."+f[1])
			}
			last := file.MessageType[len(file.MessageType)-1]
			last.Field = append(last.Field, field)
		}
	}
	return file
}

var described = sync.OnceValue(func() protoreflect.FileDescriptor {
	file, err := protodesc.NewFile(describe(), nil)
	if err != nil {
		panic(err)
	}
	return file
})

func message(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(described().Messages().ByName(name))
}

// set sets a field of a message; the path a.b is field b of the message in field a.
func set(m protoreflect.Message, path string, value any) {
	name, rest, nested := strings.Cut(path, ".")
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if nested {
		set(m.Mutable(field).Message(), rest, value)
		return
	}
	m.Set(field, protoreflect.ValueOf(value))
}

func text(m protoreflect.Message, path string) string {
	name, rest, nested := strings.Cut(path, ".")
	value := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
	if nested {
		return text(value.Message(), rest)
	}
	return value.String()
}

func ackOf(id string) proto.Message {
	m := message("NotificationAck")
	set(m, "id", id)
	return m
}

// payload is a client's view of an entry.
type payload struct{ id, category, title, body, show, entityID, entityType, entity string }

func readPayload(m protoreflect.Message) payload {
	return payload{
		text(m, "id"), text(m, "category"), text(m, "title"), text(m, "body"), text(m, "show"),
		text(m, "entity.id"), text(m, "entity.type"), text(m, "entity.data"),
	}
}
