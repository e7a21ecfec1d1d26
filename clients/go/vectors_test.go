package godwit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
)

// vectors loads the test cases that the server and every client library must pass.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "api", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []T }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return file.Cases
}

func TestVectorNames(t *testing.T) {
	type vector struct {
		Name  string
		Valid bool
	}
	for _, c := range vectors[vector](t, "names") {
		if err := checkName("name", c.Name); (err == nil) != c.Valid {
			t.Errorf("%q: valid should be %t, got %v", c.Name, c.Valid, err)
		}
	}
}

func TestVectorDurations(t *testing.T) {
	type vector struct {
		Text string
		MS   *int64
	}
	for _, c := range vectors[vector](t, "durations") {
		if c.MS == nil {
			continue // the client decodes only the forms that a server writes
		}
		b, err := json.Marshal(c.Text)
		if err != nil {
			t.Fatal(err)
		}
		var d wireTime
		if err := json.Unmarshal(b, &d); err != nil || time.Duration(d).Milliseconds() != *c.MS {
			t.Errorf("%q should be %d ms, got %s, %v", c.Text, *c.MS, time.Duration(d), err)
		}
	}
}

func TestVectorDigests(t *testing.T) {
	type vector struct {
		Objects []struct{ Group, Object string }
		Digest  string
	}
	for _, c := range vectors[vector](t, "digests") {
		var sum uint64
		for _, o := range c.Objects {
			sum += objectKey{o.Group, o.Object}.hash()
		}
		if got := formatDigest(sum); got != c.Digest {
			t.Errorf("%v: got %s, want %s", c.Objects, got, c.Digest)
		}
		if d, ok := parseDigest(c.Digest); !ok || d != sum {
			t.Errorf("%s was read as %x, %t", c.Digest, d, ok)
		}
	}
	for _, bad := range []string{"", "xyz", "1", "00000000000000000", "-000000000000001"} {
		if d, ok := parseDigest(bad); ok {
			t.Errorf("%q was read as %x", bad, d)
		}
	}
}

func TestVectorServerFrames(t *testing.T) {
	type vector struct {
		Name  string
		JSON  json.RawMessage
		Proto []byte
	}
	for _, file := range []string{"server_frames", "notifications"} {
		for _, c := range vectors[vector](t, file) {
			t.Run(file+"/"+c.Name, func(t *testing.T) {
				var compact bytes.Buffer // as a server writes it
				if err := json.Compact(&compact, c.JSON); err != nil {
					t.Fatal(err)
				}
				fromJSON := decodeJSON(compact.Bytes())
				var p pb.ServerFrame
				if err := proto.Unmarshal(c.Proto, &p); err != nil {
					t.Fatal(err)
				}
				fromProto := fromProto(&p)
				plain(&fromJSON)
				plain(&fromProto)
				if !reflect.DeepEqual(fromJSON, fromProto) {
					a, _ := json.Marshal(fromJSON)
					b, _ := json.Marshal(fromProto)
					t.Errorf("JSON says     %s\nprotobuf says %s", a, b)
				}
				if reflect.ValueOf(fromJSON).IsZero() {
					t.Error("nothing was read")
				}
			})
		}
	}
}

// plain normalizes values with the same meaning: JSON of the same value, no data, and no objects.
func plain(f *serverFrame) {
	if n := f.Notification; n != nil {
		var v any
		if isJSON(n.ContentType) && json.Unmarshal(n.Data, &v) == nil {
			n.Data, _ = json.Marshal(v)
		} else if len(n.Data) == 0 {
			n.Data = nil
		}
	}
	if r := f.Registered; r != nil && len(r.Objects) == 0 {
		r.Objects = nil
	}
}

func TestVectorClientFrames(t *testing.T) {
	type vector struct {
		Name  string
		JSON  json.RawMessage
		Proto []byte
		Error any
	}
	for _, c := range vectors[vector](t, "client_frames") {
		if c.Error != nil {
			continue // the server's part
		}
		t.Run(c.Name, func(t *testing.T) {
			var f clientFrame
			dec := json.NewDecoder(bytes.NewReader(c.JSON))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&f); err != nil {
				t.Fatal("this client does not send that:", err)
			}
			var want pb.ClientFrame
			if err := proto.Unmarshal(c.Proto, &want); err != nil {
				t.Fatal(err)
			}
			if got := f.proto(); !proto.Equal(got, &want) {
				t.Errorf("protobuf\n got %v\nwant %v", got, &want)
			}
			b, err := json.Marshal(&f)
			if err != nil {
				t.Fatal(err)
			}
			var again clientFrame
			if err := json.Unmarshal(b, &again); err != nil || !proto.Equal(again.proto(), &want) {
				t.Errorf("as JSON it is %s, %v", b, err)
			}
		})
	}
}
