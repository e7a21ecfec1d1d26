package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

func TestServeFramesAreRead(t *testing.T) {
	var c Client
	for _, decode := range []func() error{
		func() error {
			return DecodeJSON([]byte(`{"serve":{"subjects":["orders.>","a.*"],"queue":"orders"}}`), &c)
		},
		func() error {
			return DecodeProto(client(&godwitpb.Serve{Subjects: []string{"orders.>", "a.*"}, Queue: "orders"}), &c)
		},
	} {
		if err := decode(); err != nil || c.Kind != KindServe || fmt.Sprintf("%s", c.Patterns) != "[orders.> a.*]" || string(c.Queue) != "orders" {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	if err := DecodeJSON([]byte(`{"unserve":{"subjects":["a"]}}`), &c); err != nil || c.Kind != KindUnserve || len(c.Patterns) != 1 || len(c.Queue) != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestRepliesAreRead(t *testing.T) {
	full := Reply{
		RequestID: []byte("r1"), Status: 201, ContentType: "text/plain", Data: []byte("done"),
		Headers: Headers{"Location": {"/x"}, "Set-Cookie": {"a=1", "b=2"}},
	}
	for name, c := range map[string]struct {
		json  string
		proto *godwitpb.Reply
		want  Reply
	}{
		"everything": {
			`{"reply":{"data":"done","request_id":"r1","status":201,"content_type":"text/plain","headers":{"Location":"/x","Set-Cookie":["a=1","b=2"]}}}`,
			&godwitpb.Reply{
				RequestId: "r1", Status: 201, ContentType: "text/plain", Data: []byte("done"), Headers: map[string]string{"Location": "/x"},
				HeaderFields: []*godwitpb.HeaderField{{Name: "Set-Cookie", Value: "a=1"}, {Name: "Set-Cookie", Value: "b=2"}},
			}, full,
		},
		"nothing but the id": {
			`{"reply":{"request_id":"r1"}}`, &godwitpb.Reply{RequestId: "r1"}, Reply{RequestID: []byte("r1"), Status: 200},
		},
		"JSON to a notification": {
			`{"reply":{"id":"ride-1","data":{"accept": true}}}`,
			&godwitpb.Reply{Id: "ride-1", ContentType: "application/json", Data: []byte(`{"accept": true}`)},
			Reply{ID: []byte("ride-1"), Status: 200, ContentType: "application/json", Data: []byte(`{"accept": true}`)},
		},
		"text whose type is among the headers": {
			`{"reply":{"request_id":"r1","data":"<p>","headers":{"content-TYPE":"text/html"}}}`,
			&godwitpb.Reply{RequestId: "r1", Data: []byte("<p>"), Headers: map[string]string{"content-TYPE": "text/html"}},
			Reply{RequestID: []byte("r1"), Status: 200, ContentType: "text/html", Data: []byte("<p>"), Headers: Headers{"content-TYPE": {"text/html"}}},
		},
		"bytes": {
			`{"reply":{"request_id":"r1","data_base64":"AP8=","content_type":"image/png"}}`,
			&godwitpb.Reply{RequestId: "r1", ContentType: "image/png", Data: []byte{0, 255}},
			Reply{RequestID: []byte("r1"), Status: 200, ContentType: "image/png", Data: []byte{0, 255}},
		},
	} {
		for format, decode := range map[string]func(*Client) error{
			"json":  func(into *Client) error { return DecodeJSON([]byte(c.json), into) },
			"proto": func(into *Client) error { return DecodeProto(client(c.proto), into) },
		} {
			var into Client
			if err := decode(&into); err != nil {
				t.Errorf("%s in %s: %v", name, format, err)
				continue
			}
			got := *into.Reply
			if string(got.RequestID) != string(c.want.RequestID) || string(got.ID) != string(c.want.ID) || got.Status != c.want.Status ||
				got.ContentType != c.want.ContentType || !bytes.Equal(got.Data, c.want.Data) || !reflect.DeepEqual(got.Headers, c.want.Headers) {
				t.Errorf("%s in %s is %+v, want %+v", name, format, got, c.want)
			}
		}
	}
}

func TestBadServesAndRepliesAreRefusedByName(t *testing.T) {
	reply := func(field string) string { return `{"reply":{"request_id":"r",` + field + `}}` }
	for _, c := range []struct{ in, code, field, says string }{
		{`{"serve":{"subjects":[]}}`, CodeBadField, "subjects", "required"},
		{`{"serve":{"subjects":[""]}}`, CodeBadField, "subjects", "required"},
		{`{"serve":{"subjects":["a b"]}}`, CodeBadField, "subjects", "allowed in a token"},
		{`{"serve":{"subjects":["a\r\nb"]}}`, CodeBadField, "subjects", "allowed in a token"},
		{`{"serve":{"subjects":["a\u0000"]}}`, CodeBadField, "subjects", "allowed in a token"},
		{`{"serve":{"subjects":["` + strings.Repeat("x", 256) + `"]}}`, CodeBadField, "subjects", "255"},
		{`{"serve":{"subjects":[` + list(257) + `]}}`, CodeBadField, "subjects", "256"},
		{`{"serve":{"subjects":"a"}}`, CodeBadField, "subjects", "list"},
		{`{"serve":{"subjects":["a"],"queue":"a b"}}`, CodeBadField, "queue", `' '`},
		{`{"serve":{"subjects":["a"],"queue":7}}`, CodeBadField, "queue", "string"},
		{`{"serve":{"topics":["a"]}}`, CodeBadFrame, "topics", `"topics"`},
		{`{"reply":{}}`, CodeBadField, "request_id", "must be given"},
		{`{"reply":{"request_id":"r","id":"a"}}`, CodeBadField, "request_id", "not both"},
		{`{"reply":{"request_id":"` + strings.Repeat("r", 65) + `"}}`, CodeBadField, "request_id", "not one"},
		{`{"reply":{"id":"a b"}}`, CodeBadField, "id", `' '`},
		{reply(`"status":"ok"`), CodeBadField, "status", "whole number"},
		{reply(`"status":99`), CodeBadField, "status", "599"},
		{reply(`"status":101`), CodeBadField, "status", "599"},
		{reply(`"status":1000`), CodeBadField, "status", "599"},
		{reply(`"headers":[]`), CodeBadField, "headers", "object"},
		{reply(`"headers":{"a":1}`), CodeBadField, "headers", "strings"},
		{reply(`"headers":{"a":[1]}`), CodeBadField, "headers", "strings"},
		{reply(`"headers":{"a b":"c"}`), CodeBadField, "headers", `"a b"`},
		{reply(`"headers":{"":"c"}`), CodeBadField, "headers", `""`},
		{reply(`"headers":{"a\r\nb":"c"}`), CodeBadField, "headers", "name"},
		{reply(`"headers":{"a":"b\r\nSet-Cookie: c"}`), CodeBadField, "headers", "control"},
		{reply(`"headers":{"a":"\u0000"}`), CodeBadField, "headers", "control"},
		{reply(`"headers":{"a":"` + strings.Repeat("x", MaxHeaderBytes) + `"}`), CodeBadField, "headers", "16384"},
		{reply(`"data":"x","data_base64":"eA=="`), CodeBadField, "data_base64", "beside"},
		{reply(`"data_base64":"?"`), CodeBadField, "data_base64", "base64"},
		{reply(`"data":{},"content_type":"text/plain"`), CodeBadField, "data", "string"},
		{reply(`"content_type":"a\nb"`), CodeBadField, "content_type", "ASCII"},
		{reply(`"data":"` + strings.Repeat("x", MaxBody) + `"`), CodeBadField, "data", "1048576"},
		{reply(`"body":"x"`), CodeBadFrame, "body", `"body"`},
	} {
		var into Client
		checkError(t, fmt.Sprintf("%.80s", c.in), DecodeJSON([]byte(c.in), &into), c.code, c.field, c.says)
	}
	many := strings.Split(strings.Repeat("a,", MaxPatterns)+"a", ",")
	for _, c := range []struct {
		in                []byte
		code, field, says string
	}{
		{client(&godwitpb.Serve{}), CodeBadField, "subjects", "required"},
		{client(&godwitpb.Serve{Subjects: many}), CodeBadField, "subjects", "256"},
		{client(&godwitpb.Reply{}), CodeBadField, "request_id", "must be given"},
		{client(&godwitpb.Reply{RequestId: "r", Status: 99}), CodeBadField, "status", "599"},
		{client(&godwitpb.Reply{RequestId: "r", Status: -200}), CodeBadField, "status", "599"},
		{client(&godwitpb.Reply{RequestId: "r", Headers: map[string]string{"a": "b\n"}}), CodeBadField, "headers", "control"},
		{client(&godwitpb.Reply{RequestId: "r", Data: make([]byte, MaxBody+1)}), CodeBadField, "data", "1048577"},
		{[]byte{0x5a, 0x05, 0x22, 0x03, 0x0a, 0x01, 0xff}, CodeBadField, "headers", "UTF-8"},
		{[]byte{0x5a, 0x04, 0x22, 0x02, 0x0a, 0x05}, CodeBadFrame, "", "protobuf"},
		{[]byte{0x4a, 0x03, 0x0a, 0x01, 0xff}, CodeBadField, "subjects", "UTF-8"},
	} {
		var into Client
		checkError(t, fmt.Sprintf("%.40q", c.in), DecodeProto(c.in, &into), c.code, c.field, c.says)
	}
}

func TestRequestsSayTheSameInEveryFormat(t *testing.T) {
	deadline := time.Date(2026, 11, 21, 0, 0, 5, 123e6, time.UTC)
	for name, c := range map[string]struct {
		in    Request
		json  string
		event string // where it differs
	}{
		"everything": {
			in: Request{
				ID: "r1", Subject: "orders.get.1", Method: "GET", Path: "/1", Query: "a=b&a=c", Deadline: deadline, ContentType: "text/plain",
				Headers: Headers{"Accept": {"*/*"}, "Link": {"<a>", "<b>"}}, Data: []byte("hi"),
			},
			json: `{"request_id":"r1","subject":"orders.get.1","method":"GET","path":"/1","query":"a=b&a=c","headers":{"Accept":"*/*","Link":["<a>","<b>"]},"data":"hi","content_type":"text/plain","deadline":"2026-11-21T00:00:05.123Z"}`,
		},
		"nothing": {
			in:   Request{ID: "r1", Subject: "orders", Deadline: deadline},
			json: `{"request_id":"r1","subject":"orders","deadline":"2026-11-21T00:00:05.123Z"}`,
		},
		"a type without a body": {
			in:   Request{ID: "r1", Subject: "orders", Deadline: deadline, ContentType: "application/json"},
			json: `{"request_id":"r1","subject":"orders","content_type":"application/json","deadline":"2026-11-21T00:00:05.123Z"}`,
		},
		"JSON on several lines": {
			in:    Request{ID: "r1", Subject: "orders", Deadline: deadline, ContentType: "application/json", Data: []byte("{\"a\":\r\n1}")},
			json:  "{\"request_id\":\"r1\",\"subject\":\"orders\",\"data\":{\"a\":\r\n1},\"deadline\":\"2026-11-21T00:00:05.123Z\"}",
			event: `{"request_id":"r1","subject":"orders","data":{"a":  1},"deadline":"2026-11-21T00:00:05.123Z"}`,
		},
		"no type": {
			in:   Request{ID: "r1", Subject: "orders", Deadline: deadline, Data: []byte("hi")},
			json: `{"request_id":"r1","subject":"orders","data_base64":"aGk=","deadline":"2026-11-21T00:00:05.123Z"}`,
		},
		"what says JSON and is none": {
			in:   Request{ID: "r1", Subject: "orders", Deadline: deadline, ContentType: "application/json", Data: []byte(`{"a":`)},
			json: `{"request_id":"r1","subject":"orders","data_base64":"eyJhIjo=","content_type":"application/json","deadline":"2026-11-21T00:00:05.123Z"}`,
		},
	} {
		if got := string(AppendRequest(nil, JSON, &c.in)); got != `{"request":`+c.json+`}` {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.json)
		}
		if c.event == "" {
			c.event = c.json
		}
		if got := string(AppendRequest(nil, SSE, &c.in)); got != "event: request\ndata: "+c.event+"\n\n" {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.event)
		}
		if !json.Valid([]byte(c.json)) {
			t.Fatalf("%s: the case is not JSON", name)
		}
		var f godwitpb.ServerFrame
		if err := proto.Unmarshal(AppendRequest(nil, Proto, &c.in), &f); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := f.GetRequest()
		headers := make(Headers)
		for k, v := range r.GetHeaders() {
			headers[k] = []string{v}
		}
		for _, h := range r.GetHeaderFields() {
			headers[h.GetName()] = append(headers[h.GetName()], h.GetValue())
		}
		got := Request{
			ID: r.GetRequestId(), Subject: r.GetSubject(), Method: r.GetMethod(), Path: r.GetPath(), Query: r.GetQuery(), ContentType: r.GetContentType(),
			Data: r.GetData(), Deadline: time.UnixMilli(r.GetDeadlineMs()).UTC(),
		}
		if len(headers) > 0 {
			got.Headers = headers
		}
		if !reflect.DeepEqual(got, c.in) {
			t.Errorf("%s: protobuf says %+v, want %+v", name, got, c.in)
		}
	}
}

func TestJSONDeeperThanParsersGoTravelsAsBytes(t *testing.T) {
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	r := Request{ID: "r1", Subject: "a", ContentType: "application/json", Data: []byte(deep)}
	if got := string(AppendRequest(nil, JSON, &r)); !strings.Contains(got, `"data_base64"`) {
		t.Errorf("got %s, want data_base64", got)
	}
}
