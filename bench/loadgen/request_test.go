package loadgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

const due = int64(0x0123456789abcdef)

var target = Target{HTTP: "127.0.0.1:80", GRPC: "127.0.0.1:81", Key: "dev"}

// from41 returns a function that returns 41, 42, 43 …
func from41() func() int {
	n := 40
	return func() int { n++; return n }
}

func odd(n int) bool { return n%2 == 1 }

// published is the content of a request in any encoding.
type published struct {
	to   []string
	data string
}

func TestPreparedHTTPRequestsSayWhatIsMeant(t *testing.T) {
	c := PublishConfig{Prefix: "p-", Size: 200, Batch: 3, AckNone: true, DeafEvery: 2}
	for name, tc := range map[string]struct {
		content content
		to      [][]string
		deaf    int
	}{
		"one":   {c.oneJSON(), [][]string{{"p-0000041"}}, 1},
		"batch": {c.batchJSON(), [][]string{{"p-0000041"}, {"p-0000042"}, {"p-0000043"}}, 2},
		"many":  {c.manyJSON([]int{7, 8}), [][]string{{"p-0000007", "p-0000008"}}, 1},
	} {
		r := httpRequest(target, tc.content)
		r.prepare(due, from41(), odd)
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.bytes)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if req.Header.Get("Authorization") != "Bearer dev" || r.deaf != tc.deaf {
			t.Errorf("%s: headers are %v, %d go to the deaf, want %d", name, req.Header, r.deaf, tc.deaf)
		}
		lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
		if len(lines) != len(tc.to) {
			t.Fatalf("%s: %d lines, want %d", name, len(lines), len(tc.to))
		}
		for i, line := range lines {
			check(t, name, decodeJSON(t, line), tc.to[i])
		}
	}
}

func decodeJSON(t *testing.T, line []byte) (p published) {
	t.Helper()
	var v struct {
		To   json.RawMessage `json:"to"`
		Data json.RawMessage `json:"data"`
		Ack  string          `json:"ack"`
	}
	if err := json.Unmarshal(line, &v); err != nil || v.Ack != "none" {
		t.Fatalf("%s: ack %q, %v", line, v.Ack, err)
	}
	if json.Unmarshal(v.To, &p.to) != nil {
		p.to = []string{""}
		if err := json.Unmarshal(v.To, &p.to[0]); err != nil {
			t.Fatal(err)
		}
	}
	p.data = string(v.Data)
	return p
}

func check(t *testing.T, name string, p published, to []string) {
	t.Helper()
	if strings.Join(p.to, " ") != strings.Join(to, " ") {
		t.Errorf("%s: goes to %v, want %v", name, p.to, to)
	}
	if !json.Valid([]byte(p.data)) || findStamp([]byte(p.data)) != due {
		t.Errorf("%s: data is %.60s, stamped %x", name, p.data, findStamp([]byte(p.data)))
	}
}

func TestPreparedCallsSayWhatIsMeant(t *testing.T) {
	var many []int
	for n := range 1000 { // more than a frame holds
		many = append(many, n)
	}
	c := PublishConfig{Prefix: "p-", Size: 4096, AckNone: true}
	large := c
	large.Size = 40_000
	for name, tc := range map[string]struct {
		content content
		to      int
		first   string
	}{
		"one":       {c.oneProto(), 1, "p-0000041"},
		"one large": {large.oneProto(), 1, "p-0000041"},
		"many":      {c.manyProto(many), 1000, "p-0000000"},
	} {
		r := grpcRequest(target, tc.content)
		r.prepare(due, from41(), odd)
		r.setStream(7)
		m := callOf(t, name, r.bytes)
		if len(m.GetTo()) != tc.to || m.GetAck() != godwitpb.AckMode_ACK_MODE_NONE {
			t.Fatalf("%s: goes to %d, ack %s", name, len(m.GetTo()), m.GetAck())
		}
		check(t, name, published{m.GetTo()[:1], string(m.GetData())}, []string{tc.first})
	}
}

// callOf decodes a call with the framer of golang.org/x/net.
func callOf(t *testing.T, name string, b []byte) *godwitpb.PublishRequest {
	t.Helper()
	f := http2.NewFramer(io.Discard, bytes.NewReader(b))
	var body []byte
	for ended := false; !ended; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if frame.Header().StreamID != 7 {
			t.Fatalf("%s: %v is not on stream 7", name, frame)
		}
		if d, ok := frame.(*http2.DataFrame); ok {
			body, ended = append(body, d.Data()...), d.StreamEnded()
		}
	}
	var m godwitpb.PublishRequest
	if err := proto.Unmarshal(body[5:], &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &m
}

func TestDataHasTheSizeAskedFor(t *testing.T) {
	for _, size := range []int{minData, 64, 200, 1536, 4096, 65536} {
		data, stamp := makeData(size)
		putStamp(data[stamp:], due)
		if len(data) != size || !json.Valid(data) || findStamp(data) != due {
			t.Errorf("data of %d bytes has %d, stamped %x", size, len(data), findStamp(data))
		}
	}
}

func TestRecipientsBelongToOneServerEach(t *testing.T) {
	seen := make([]int, 6)
	for n := range 6000 {
		seen[TargetOf("p-", n, 6)]++
	}
	for i, n := range seen {
		if n < 700 || n > 1300 {
			t.Errorf("server %d has %d of 6,000 recipients", i, n)
		}
	}
	if TargetOf("p-", 5, 1) != 0 {
		t.Error("a lone server is not the first")
	}
}
