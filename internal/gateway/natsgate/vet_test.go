package natsgate

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/topic"
)

// vetted hands bytes through a vet of a client that may subscribe to rides.*, and publish to cars.*.
func vetted(in []byte, room int) []byte {
	var out bytes.Buffer
	v := &vet{
		in: bufio.NewReaderSize(bytes.NewReader(in), room), out: bufio.NewWriter(&out), prefix: prefix("a"), refused: "_refused", maxPayload: 1000,
		who:   &who{app: "a", rights: access.Rights{Subscribe: []string{"rides.*"}, Publish: []string{"cars.*"}}},
		count: new(atomic.Uint64),
	}
	_ = v.run() // ends with the bytes
	v.out.Flush()
	return out.Bytes()
}

func TestVet(t *testing.T) {
	for in, want := range map[string]string{
		"PING\r\nPONG\r\nUNSUB 1\r\nUNSUB 1 5\r\n":                   "PING\r\nPONG\r\nUNSUB 1\r\nUNSUB 1 5\r\n",
		"sub  godwit.a.t.rides.*\t7\r\n":                             "SUB godwit.a.t.rides.* 7\r\n",
		"SUB godwit.a.t.rides.> 7\r\n":                               "SUB _refused.godwit.a.t.rides.> 7\r\n",
		"SUB godwit.a.t.rides.x q 7\r\n":                             "SUB godwit.a.t.rides.x q 7\r\n",
		"SUB godwit.a.r.rides.x q 7\r\n":                             "SUB _refused.godwit.a.r.rides.x q 7\r\n",
		"PUB godwit.a.t.cars.x 5\r\nSUB x\r\n":                       "PUB godwit.a.t.cars.x 5\r\nSUB x\r\n",
		"PUB godwit.a.t.cars.x _INBOX.1 0\r\n\r\n":                   "PUB godwit.a.t.cars.x _INBOX.1 0\r\n\r\n",
		"PUB godwit.a.t.cars.x godwit.a.t.y 0\r\n\r\n":               "PUB _refused.godwit.a.t.cars.x godwit.a.t.y 0\r\n\r\n",
		"PUB godwit.a.t.rides.x 007\r\nSUB > 1\r\n":                  "PUB _refused.godwit.a.t.rides.x 7\r\nSUB > 1\r\n",
		"HPUB godwit.a.t.cars.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n":      "HPUB godwit.a.t.cars.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
		"PUB godwit.a.t.cars.x 1\r\nabSUB godwit.a.t.rides.> 1\r\n":  "PUB godwit.a.t.cars.x 1\r\na",
		"PUB godwit.a.t.cars.x +1\r\na\r\n":                          "WRONG\r\n",
		"PING\nSUB > 1\r\n":                                          "WRONG\r\n",
		"CONNECT {}\r\n":                                             "WRONG\r\n",
		"SUB a\r b\r\n":                                              "WRONG\r\n",
		"PING x\r\n":                                                 "WRONG\r\n",
		"PING\r\n\r\n":                                               "PING\r\nWRONG\r\n",
		"SUB " + strings.Repeat("a", 5000) + " 1\r\n":                "WRONG\r\n",
		"PUB godwit.a.t.cars.x 1001\r\n" + strings.Repeat("a", 1001): "WRONG\r\n",
	} {
		if got := vetted([]byte(in), readRoom); string(got) != want {
			t.Errorf("%.60q\nbecame %.80q\n   not %.80q", in, got, want)
		}
	}
}

// FuzzVet: whatever a client sends, what the server gets is operations in the one spelling that it is read in, each of
// them allowed or refused by name.
func FuzzVet(f *testing.F) {
	for _, seed := range []string{
		"SUB godwit.a.t.rides.> 7\r\n", "PUB godwit.a.t.cars.x 5\r\nSUB x\r\nPING\r\n", "HPUB godwit.a.t.cars.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
		"PUB godwit.a.t.cars.x _INBOX.1 0\r\n\r\nSUB godwit.a.t.rides.x q 1\r\n", "pub x 0\r\n\r\nsub y 1\r\n", "PUB a 3\r\nabcdeSUB > 1\r\n", "SUB a\rb 1\r\n", "UNSUB 1 2\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := vetted(in, readRoom)
		if again := vetted(in, 16<<10); len(in) < readRoom && !bytes.Equal(out, again) {
			t.Fatalf("%q came differently in one piece: %q", out, again)
		}
		for rest := out; len(rest) > 0; {
			var err error
			if rest, err = read(rest); err != nil {
				t.Fatalf("%q became %q: %v", in, out, err)
			}
		}
	})
}

// read reads one operation as strictly as can be, and holds it against the rights in other words.
func read(b []byte) (rest []byte, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok {
		return nil, fmt.Errorf("a line without end")
	}
	f := strings.Split(string(line), " ")
	switch f[0] {
	case "PING", "PONG", "UNSUB":
		return rest, nil
	case "WRONG":
		if len(rest) > 0 {
			return nil, fmt.Errorf("something after what is wrong")
		}
		return nil, nil
	case "SUB":
		name, own := strings.CutPrefix(f[1], "godwit.a.t.rides.")
		if !strings.HasPrefix(f[1], "_refused.") && (!own || name != "*" && topic.CheckName("", name) != nil || strings.Contains(name, ".")) {
			return nil, fmt.Errorf("subscribes to %q", f[1])
		}
		return rest, nil
	case "PUB", "HPUB":
		name, own := strings.CutPrefix(f[1], "godwit.a.t.cars.")
		if !strings.HasPrefix(f[1], "_refused.") && !strings.HasPrefix(f[1], "_INBOX.") && (!own || topic.CheckName("", name) != nil || strings.Contains(name, ".")) {
			return nil, fmt.Errorf("publishes to %q", f[1])
		}
		n, err := strconv.Atoi(f[len(f)-1])
		if err != nil || n < 0 || n > 1000 {
			return nil, fmt.Errorf("size %q", f[len(f)-1])
		}
		if len(rest) < n+2 {
			return nil, nil // the client went within a message
		}
		if string(rest[n:n+2]) != "\r\n" {
			return nil, fmt.Errorf("a message that goes on")
		}
		return rest[n+2:], nil
	}
	return nil, fmt.Errorf("operation %q", f[0])
}
