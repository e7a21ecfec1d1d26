package frame

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"godwit.dev/godwit/api/godwitpb"
)

func TestServerKindsAreTheFieldsOfServerFrame(t *testing.T) {
	fields := (&godwitpb.ServerFrame{}).ProtoReflect().Descriptor().Fields()
	for k, name := range serverKinds {
		if f := fields.ByNumber(protoreflect.FieldNumber(k)); name != "" && (f == nil || string(f.Name()) != name) {
			t.Errorf("frame %d is called %s here, and in ServerFrame it is %v", k, name, f)
		}
	}
}

func TestEveryFormatIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, f := range []Format{JSON, Proto, SSE, Payload} {
		if f.Name == "" || f.Decode == nil || f.Head == nil || f.Encoder == nil || names[f.Name] {
			t.Errorf("a format is called %q, which is another's name, or lacks something", f.Name)
		}
		names[f.Name] = true
	}
}

func TestAnswersAreTheSameJSONWhateverTheFormat(t *testing.T) {
	e := &Error{Code: CodeBadFrame, Message: "data: \"x\"\n\nevent: y", Field: "ids"}
	for _, f := range []Format{JSON, SSE} {
		for k, answer := range map[ServerKind]func(Format) []byte{
			ServerError: func(f Format) []byte { return AppendError(nil, f, e) },
			ServerPong:  func(f Format) []byte { return AppendPong(nil, f, EmptyDigest) },
		} {
			if got, want := string(AppendAnswer(nil, f, k, answer(f))), string(answer(JSON)); got != want || !k.Answers() {
				t.Errorf("%s %s becomes %s, want %s", f, k, got, want)
			}
		}
	}
}
