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
	"godwit.dev/godwit/internal/messaging/topic"
)

// vetted passes bytes through a vet whose client may subscribe to rides.* and publish to cars.*.
func vetted(in []byte, room int) []byte {
	var out bytes.Buffer
	v := &vet{
		in: bufio.NewReaderSize(bytes.NewReader(in), room), out: bufio.NewWriter(&out), prefix: prefix("a"), refused: "_refused", maxPayload: 1000,
		inbox: "_INBOX.mine.", subs: newSubscriptions(),
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
		"SUB godwit.a.t.rides.> 7\r\n":                               "SUB _refused.r.godwit.a.t.rides.> 7\r\n",
		"SUB godwit.a.t.rides.x q 7\r\n":                             "SUB godwit.a.t.rides.x q 7\r\n",
		"SUB godwit.a.r.rides.x q 7\r\n":                             "SUB _refused.r.godwit.a.r.rides.x q 7\r\n",
		"PUB godwit.a.t.cars.x 5\r\nSUB x\r\n":                       "PUB godwit.a.t.cars.x 5\r\nSUB x\r\n",
		"PUB godwit.a.t.cars.x _INBOX.1 0\r\n\r\n":                   "PUB godwit.a.t.cars.x _INBOX.mine.1 0\r\n\r\n",
		"PUB godwit.a.t.cars.x godwit.a.t.y 0\r\n\r\n":               "PUB _refused.r.godwit.a.t.cars.x godwit.a.t.y 0\r\n\r\n",
		"PUB godwit.a.t.rides.x 007\r\nSUB > 1\r\n":                  "PUB _refused.r.godwit.a.t.rides.x 7\r\nSUB > 1\r\n",
		"HPUB godwit.a.t.cars.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n":      "HPUB godwit.a.t.cars.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
		"PUB godwit.a.t.cars.x 1\r\nabSUB godwit.a.t.rides.> 1\r\n":  "PUB godwit.a.t.cars.x 1\r\na",
		"PUB godwit.a.t.cars.x +1\r\na\r\n":                          "WRONG\r\n",
		"PING\nSUB > 1\r\n":                                          "WRONG\r\n",
		"CONNECT {}\r\n":                                             "WRONG\r\n",
		"SUB a\r b\r\n":                                              "WRONG\r\n",
		"PING x\r\n":                                                 "WRONG\r\n",
		"PING\r\n\r\n":                                               "PING\r\nWRONG\r\n",
		"SUB " + strings.Repeat("a", 5000) + " 1\r\n":                "WRONG\r\n",
		"PUB godwit.a.t.cars.x 1001\r\n" + strings.Repeat("a", 1001): "PUB _refused.m 999999999\r\n",
		"SUB _INBOX.x.* 1\r\n":                                       "SUB _refused.r._INBOX.x.* 1\r\n", // it may ask nobody
		"UNSUB 1 x\r\n":                                              "WRONG\r\n",
	} {
		if got := vetted([]byte(in), readRoom); string(got) != want {
			t.Errorf("%.60q\nbecame %.80q\n   not %.80q", in, got, want)
		}
	}
}

// FuzzVet: whatever a client sends, the server gets operations in a single spelling, each of them allowed or changed to one that the server
// refuses.
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

// read parses one operation as strictly as possible, and checks it against the rights with an independent implementation.
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
		if f[1] == "_refused.m" && n == beyondAll && len(rest) == 0 {
			return nil, nil
		}
		if err != nil || n < 0 || n > 1000 {
			return nil, fmt.Errorf("size %q", f[len(f)-1])
		}
		if len(rest) < n+2 {
			return nil, nil // the client disconnected within a message
		}
		if string(rest[n:n+2]) != "\r\n" {
			return nil, fmt.Errorf("a message that goes on")
		}
		return rest[n+2:], nil
	}
	return nil, fmt.Errorf("operation %q", f[0])
}

// handedBack passes bytes of the server through a back.
func handedBack(in string, subs *subscriptions) string {
	var out bytes.Buffer
	b := &back{in: bufio.NewReader(strings.NewReader(in)), out: bufio.NewWriter(&out), inbox: "_INBOX.mine.", refused: "_refused", subs: subs}
	_ = b.run() // ends with the bytes
	b.out.Flush()
	return out.String()
}

func TestErrorsNameTheSubjectAsTheClientWroteIt(t *testing.T) {
	const violation = "-ERR 'Permissions Violation for "
	for in, want := range map[string]string{
		violation + "Subscription to \"_refused.r.godwit.a.t.other\"'\r\n":                     violation + "Subscription to \"godwit.a.t.other\"'\r\n",
		violation + "Subscription to \"_refused.r.godwit.a.t.q\" using queue \"workers\"'\r\n": violation + "Subscription to \"godwit.a.t.q\" using queue \"workers\"'\r\n",
		violation + "Publish to \"_refused.r.godwit.a.r.foo\"'\r\n":                            violation + "Publish to \"godwit.a.r.foo\"'\r\n",
		violation + "Publish to \"_refused.r._refused.r.x\"'\r\n":                              violation + "Publish to \"_refused.r.x\"'\r\n",
		violation + "Subscription to \"_refused.s.a\"'\r\n":                                    violation + "Subscription to \"a\"" + reasons[bySubs] + "'\r\n",
		violation + "Publish to \"_refused.m.a\"'\r\n":                                         violation + "Publish to \"a\"" + reasons[bySize] + "'\r\n",
		"-ERR 'Stale Connection'\r\n":                                                          "-ERR 'Stale Connection'\r\n",
	} {
		if got := handedBack(in, newSubscriptions()); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// Only the subject of a message is the client's own name of an inbox; its reply is the destination of the answer, for
// any sender.
func TestMessagesComeUnderTheClientsNames(t *testing.T) {
	long := "INFO {" + strings.Repeat("a", 10_000) + "}\r\n"
	for in, want := range map[string]string{
		"MSG godwit.a.t.x 1 3\r\nabc\r\nPING\r\n":                            "MSG godwit.a.t.x 1 3\r\nabc\r\nPING\r\n",
		"MSG _INBOX.mine.x.1 1 4\r\n\r\n\r\n\r\n+OK\r\n":                     "MSG _INBOX.x.1 1 4\r\n\r\n\r\n\r\n+OK\r\n",
		"MSG godwit.a.r.x 1 _INBOX.mine.x 0\r\n\r\n":                         "MSG godwit.a.r.x 1 _INBOX.mine.x 0\r\n\r\n",
		"HMSG _INBOX.mine.x 1 _INBOX.other.y 12 13\r\nNATS/1.0\r\n\r\nx\r\n": "HMSG _INBOX.x 1 _INBOX.other.y 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
		"MSG _INBOX.other.x 1 6\r\nsecret\r\nPONG\r\n":                       "PONG\r\n",
		"MSG _INBOX.theirs 1 6\r\nsecret\r\nPONG\r\n":                        "PONG\r\n",
		long + "PING\r\n": long + "PING\r\n",
	} {
		if got := handedBack(in, newSubscriptions()); got != want {
			t.Errorf("%.60q became %.60q", in, got)
		}
	}
}

func TestSubscriptionsAreCountedAsTheServerDoes(t *testing.T) {
	subs := newSubscriptions()
	full := func() bool { return !subs.add("new", others) || !subs.remove([]string{"new"}) }
	for i := range maxOthers {
		if !subs.add(fmt.Sprint(i), others) {
			t.Fatalf("%d are too many", i)
		}
	}
	if !full() {
		t.Error("there is room for more than the limit")
	}
	if !subs.add("0", others) {
		t.Error("one that is there already is refused")
	}
	if !subs.add("topic", topics) || !subs.add("served", served) {
		t.Error("other kinds have no room")
	}
	message := "MSG godwit.a.t.x 0 0\r\n\r\n"
	handedBack(message, subs)
	if subs.remove([]string{"0", "3"}); !full() {
		t.Error("one that ends after three messages has ended after one")
	}
	handedBack(message+message, subs)
	if full() {
		t.Error("one that ends after three messages is there after them")
	}
	subs.add("0", others)
	if subs.remove([]string{"0"}); full() {
		t.Error("one that was ended is there")
	}
}

// FuzzBack: whatever a server sends, a client gets no message from another connection's inbox.
func FuzzBack(f *testing.F) {
	for _, seed := range []string{"MSG _INBOX.mine.x 1 1\r\na\r\n", "HMSG a 1 _INBOX.b 12 12\r\nNATS/1.0\r\n\r\n\r\n", "-ERR '\"_refused.s.'\r\n", "MSG _INBOX.b 1 0\r\n\r\n+OK\r\n", "MSG 1\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if out := handedBack(in, newSubscriptions()); len(out) > len(in)+len(reasons[bySubs])*(1+strings.Count(in, "-ERR ")) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
