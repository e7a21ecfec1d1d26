package godwit

import (
	"bytes"
	"maps"
	"net/http"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
)

func marshal(t testing.TB, r *pb.Request) []byte {
	t.Helper()
	b, err := proto.Marshal(&pb.ServerFrame{Frame: &pb.ServerFrame_Request{Request: r}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var wireRequests = []*pb.Request{
	{},
	{
		RequestId: "r1", Subject: "orders.get.17", Method: "GET", Path: "/17", Query: "a=b", ContentType: "text/plain", Data: []byte("body"), DeadlineMs: 1_795_000_000_123,
		Headers:      map[string]string{"Accept": "*/*", "godwit-key": "k", "X-1": "", "X-2": "2", "X-3": "3", "X-4": "4", "X-5": "5", "X-6": "6", "X-7": "é"},
		HeaderFields: []*pb.HeaderField{{Name: "Link", Value: "<a>"}, {Name: "link", Value: "<b>"}, {Name: "Accept", Value: "text/html"}},
	},
	{RequestId: "r1", DeadlineMs: -1},
}

func TestRequestsAreReadQuickly(t *testing.T) {
	for _, r := range wireRequests {
		b := marshal(t, r)
		if got := quickRequest(b); got == nil {
			t.Errorf("%v is left to the library", r)
		}
		sameRequest(t, b)
	}
	entry := func(name, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, 2), name), 2, 2), value)
	}
	request := func(fields ...any) []byte {
		var b []byte
		for i := 0; i < len(fields); i += 2 {
			num := protowire.Number(fields[i].(int))
			switch v := fields[i+1].(type) {
			case []byte:
				b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
			case int:
				b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
			}
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, fieldRequest, protowire.BytesType), b)
	}
	for name, b := range map[string][]byte{
		"a map's name twice":       request(6, entry("A", "1"), 6, entry("A", "2")),
		"the list before the map":  request(10, entry("A", "1"), 6, entry("A", "2")),
		"a name in two cases":      request(6, entry("a", "1"), 6, entry("A", "2")),
		"a field of a later time":  request(1, []byte("r1"), 11, []byte("later")),
		"text that is not UTF-8":   request(2, []byte{0xff}),
		"a header not in UTF-8":    request(6, entry("A", "\xff")),
		"a text twice":             request(1, []byte("r1"), 1, []byte("r2"), 8, []byte("a"), 8, []byte("b")),
		"another type of a field":  request(1, 7),
		"two frames":               append(request(1, []byte("r1")), request(2, []byte("a"))...),
		"another frame behind it":  append(request(1, []byte("r1")), protowire.AppendBytes(protowire.AppendTag(nil, 9, 2), nil)...),
		"the end is missing":       request(1, []byte("r1"))[:4],
		"an entry goes on too far": request(6, []byte{0x0a, 0x05, 'a'}),
		"no more than a tag":       {0x42},
		"nothing":                  {},
	} {
		t.Run(name, func(t *testing.T) { sameRequest(t, b) })
	}
}

// sameRequest compares the quick reader's result with the protobuf library's.
func sameRequest(t *testing.T, b []byte) {
	t.Helper()
	got := quickRequest(b)
	if got == nil {
		return
	}
	var f pb.ServerFrame
	if err := proto.Unmarshal(b, &f); err != nil {
		t.Fatalf("%x was read quickly: %v", b, err)
	}
	if f.GetRequest() == nil {
		t.Fatalf("%x was read as a request and is %v", b, &f)
	}
	want := requestFromProto(f.GetRequest()).Request
	if len(got.Data) == 0 && len(want.Data) == 0 {
		got.Data, want.Data = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%x was read quickly as %+v, is %+v", b, got, want)
	}
}

func FuzzQuickRequest(f *testing.F) {
	for _, r := range wireRequests {
		f.Add(marshal(f, r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		sameRequest(t, b)
		r := quickRequest(b)
		if r == nil {
			return
		}
		id, header, data := r.id, maps.Clone(r.Header), bytes.Clone(r.Data)
		clear(b) // the next message overwrites the buffer
		if r.id != id || !reflect.DeepEqual(r.Header, header) || !bytes.Equal(r.Data, data) {
			t.Fatalf("%x: what was read changes with the buffer", before)
		}
	})
}

func FuzzQuickReply(f *testing.F) {
	f.Add("r1", "", 200, "Location", "/x", "b", []byte("done"), "text/plain")
	f.Add("", "ride-1", 0, "", "", "", []byte(nil), "")
	f.Add("r1", "", 599, "a\xff", "b", "", []byte{0}, "\xff")
	f.Fuzz(func(t *testing.T, request, id string, status int, name, first, second string, data []byte, contentType string) {
		if status < 0 || status > 599 {
			return // refused before
		}
		r := &reply{RequestID: request, ID: id, Status: status, Answer: Answer{
			Header: http.Header{name: {first}, "Twice": {first, second}, "None": nil}, Data: data, ContentType: contentType,
		}}
		want, err := proto.Marshal((&clientFrame{Reply: r}).proto())
		b, ok := (&wsConn{}).quick(&clientFrame{Reply: r})
		if ok != (err == nil) {
			t.Fatalf("quickly %t, %v", ok, err)
		}
		if !ok {
			return
		}
		var got, as pb.ClientFrame
		if err := proto.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(want, &as); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&got, &as) {
			t.Fatalf("wrote %v, want %v", &got, &as)
		}
	})
}
