package frame

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

func TestAMessageReadsTheSameInEveryFormat(t *testing.T) {
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	coded := base64.StdEncoding.EncodeToString
	for _, c := range []struct{ name, contentType, data, json string }{
		{"JSON", "application/json", `{"a": 1}`, `"data":{"a": 1}`},
		{"other JSON", "application/geo+json", `[1]`, `"data":[1],"content_type":"application/geo+json"`},
		{"text", "text/plain", "a\nb", `"data":"a\nb","content_type":"text/plain"`},
		{"bytes", "application/octet-stream", "\xff\x00", `"data_base64":"/wA=","content_type":"application/octet-stream"`},
		{"no type", "", "x", `"data":"x","content_type":"application/octet-stream"`},
		{"nothing", "", "", ``},
		{"nothing of a type", "text/plain", "", `"content_type":"text/plain"`},
		{"no JSON after all", "application/json", `{"a":`, `"data_base64":"` + coded([]byte(`{"a":`)) + `","content_type":"application/json"`},
		{"two JSON texts", "application/json", `1 2`, `"data_base64":"MSAy","content_type":"application/json"`},
		{"JSON deeper than parsers read", "application/json", deep, `"data_base64":"` + coded([]byte(deep)) + `","content_type":"application/json"`},
		{"JSON not in UTF-8", "application/json", "\"\xff\"", `"data_base64":"Iv8i","content_type":"application/json"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Message{Topic: "rides.oslo", ContentType: c.contentType, Data: []byte(c.data)}
			want := `{"topic":"rides.oslo"}`
			if c.json != "" {
				want = `{"topic":"rides.oslo",` + c.json + `}`
			}
			if got := string(EncodeMessage(JSON, m)); got != `{"message":`+want+`}` || !json.Valid([]byte(got)) {
				t.Errorf("JSON is %s, want %s", got, want)
			}
			if event, id, data := sse(t, EncodeMessage(SSE, m)); event != "message" || id != "" || data != want {
				t.Errorf("SSE is %q %q %s, want %s", event, id, data, want)
			}
			pb := &godwitpb.Message{Topic: m.Topic, ContentType: c.contentType, Data: m.Data}
			if c.data == "" {
				pb.Data = nil
			} else if c.contentType == "" {
				pb.ContentType = "application/octet-stream"
			}
			wantProto(t, EncodeMessage(Proto, m), pb)
		})
	}
	wantProto(t, AppendGap(nil, Proto, 300), &godwitpb.Message{Gap: 300})
	if got := string(AppendGap(nil, JSON, 3)); got != `{"message":{"gap":3}}` {
		t.Errorf("a gap is %s", got)
	}
	if event, id, data := sse(t, AppendGap(nil, SSE, 3)); event != "message" || id != "" || data != `{"gap":3}` {
		t.Errorf("a gap is %q %q %q", event, id, data)
	}
}

func wantProto(t *testing.T, b []byte, want *godwitpb.Message) {
	t.Helper()
	var got godwitpb.ServerFrame
	if err := proto.Unmarshal(b, &got); err != nil || !proto.Equal(got.GetMessage(), want) {
		t.Errorf("protobuf is %v (%v), want %v", &got, err, want)
	}
}

func TestAnErrorNamesWhatItRefused(t *testing.T) {
	e := &Error{Code: "forbidden", Message: "no", Field: "topics", Refused: []string{"a.*", "b"}}
	if got := string(AppendError(nil, JSON, e)); got != `{"error":{"code":"forbidden","message":"no","field":"topics","refused":["a.*","b"]}}` {
		t.Errorf("JSON is %s", got)
	}
	var got godwitpb.ServerFrame
	if err := proto.Unmarshal(AppendError(nil, Proto, e), &got); err != nil || strings.Join(got.GetError().GetRefused(), " ") != "a.* b" {
		t.Errorf("protobuf is %v, %v", &got, err)
	}
}

// Whatever the topic, type and data of a message, its frame can be read by clients.
func FuzzMessage(f *testing.F) {
	f.Add("rides.oslo", "application/json", []byte(`{"a":1}`))
	f.Add("a", "application/json", []byte("[\n\r]"))
	f.Add("a", "text/plain", []byte("data: x\n\nevent: goodbye"))
	f.Add("a\n", "x\n\n/json+json", []byte("\xff"))
	f.Fuzz(func(t *testing.T, topic, contentType string, data []byte) {
		m := &Message{Topic: topic, ContentType: contentType, Data: data}
		var got struct {
			Message struct {
				Topic       string
				ContentType string `json:"content_type"`
				Data        json.RawMessage
				DataBase64  []byte `json:"data_base64"`
			}
		}
		readJSON(t, EncodeMessage(JSON, m), &got)
		if event, _, inner := sse(t, EncodeMessage(SSE, m)); event != "message" || !json.Valid([]byte(inner)) {
			t.Fatalf("%q is %q %q", data, event, inner)
		}
		if got.Message.DataBase64 != nil && string(got.Message.DataBase64) != string(data) {
			t.Fatalf("%q became %q", data, got.Message.DataBase64)
		}
		pb := &godwitpb.ServerFrame{}
		if err := proto.Unmarshal(EncodeMessage(Proto, m), pb); err == nil && string(pb.GetMessage().GetData()) != string(data) {
			t.Fatalf("%q became %q", data, pb.GetMessage().GetData())
		}
	})
}
