package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const line = "POST /v1/notifications HTTP/1.1"

const plain = line + "\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\n"

func TestAPlainRequestIsRead(t *testing.T) {
	h, kind := Read([]byte(line+"\r\nhost: x:8080 \r\nUser-Agent: curl\r\nACCEPT: */*\r\nX-Empty:\r\nConnection: Keep-Alive\r\nauthorization:\tBearer k\r\nIdempotency-Key: a b\r\ncontent-length: 7\r\n\r\n{}"), line)
	if kind != Plain || string(h.Host) != "x:8080" || string(h.Authorization) != "Bearer k" || string(h.IdempotencyKey) != "a b" || h.Length != 7 {
		t.Errorf("read as %v: %+v", kind, h)
	}
}

func TestALengthIsReadWhole(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "9": 9, "10": 10, "10900": 10_900, "262144": MaxBody} {
		if h, kind := Read([]byte(line+"\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Length: "+text+"\r\n\r\n"), line); kind != Plain || h.Length != want {
			t.Errorf("%s is read as %v: %d", text, kind, h.Length)
		}
	}
}

func TestAPlainRequestInPartsIsPartialUntilItIsWhole(t *testing.T) {
	for n := range len(plain) {
		if _, kind := Read([]byte(plain[:n]), line); kind != Partial {
			t.Fatalf("the first %d bytes are %v", n, kind)
		}
	}
	if h, kind := Read([]byte(plain+plain), line); kind != Plain || h.Size != len(plain) {
		t.Errorf("with another behind it: %v, head of %d bytes", kind, h.Size)
	}
}

// TestAmbiguousRequestsAreLeftToNetHTTP reads requests that servers interpret differently, and requests that require more than an answer.
func TestAmbiguousRequestsAreLeftToNetHTTP(t *testing.T) {
	with := func(header string) string {
		return line + "\r\nHost: x\r\nContent-Length: 2\r\n" + header + "\r\n\r\n{}"
	}
	for name, in := range map[string]string{
		"another method":               "GET /v1/notifications HTTP/1.1\r\nHost: x\r\n\r\n",
		"another path":                 "POST /v1/notificationsx HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"a query":                      "POST /v1/notifications?app=a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"an older version":             "POST /v1/notifications HTTP/1.0\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"an empty line first":          "\r\n" + plain,
		"HTTP/2":                       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"TLS":                          "\x16\x03\x01",
		"no host":                      line + "\r\nContent-Length: 2\r\n\r\n{}",
		"no length":                    line + "\r\nHost: x\r\n\r\n",
		"two hosts":                    with("Host: x"),
		"an empty host":                line + "\r\nHost:\r\nContent-Length: 2\r\n\r\n{}",
		"two equal lengths":            with("Content-Length: 2"),
		"two lengths":                  with("Content-Length: 3"),
		"a list of lengths":            line + "\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}",
		"a length with a sign":         line + "\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}",
		"a negative length":            line + "\r\nHost: x\r\nContent-Length: -2\r\n\r\n{}",
		"a length in hexadecimals":     line + "\r\nHost: x\r\nContent-Length: 0x2\r\n\r\n{}",
		"a length with an inner space": line + "\r\nHost: x\r\nContent-Length: 1 0\r\n\r\n{}",
		"a length beyond an int":       line + "\r\nHost: x\r\nContent-Length: 18446744073709551618\r\n\r\n{}",
		"a body too long":              line + "\r\nHost: x\r\nContent-Length: 262145\r\n\r\n{}",
		"chunks":                       with("Transfer-Encoding: chunked"),
		"chunks by another name":       with("transfer-encoding: xchunked"),
		"a trailer":                    with("Trailer: X"),
		"an upgrade":                   with("Upgrade: websocket"),
		"a close":                      with("Connection: close"),
		"a list of connection":         with("Connection: keep-alive, upgrade"),
		"an expectation":               with("Expect: 100-continue"),
		"an encoding":                  with("Content-Encoding: gzip"),
		"two authorizations":           with("Authorization: a\r\nAuthorization: b"),
		"two idempotency keys":         with("Idempotency-Key: a\r\nIdempotency-Key: b"),
		"an empty idempotency key":     with("Idempotency-Key: "),
		"a folded header":              with("X: a\r\n b"),
		"a space before the colon":     with("Transfer-Encoding : chunked"),
		"a name with a space":          with("X Y: a"),
		"a header without a colon":     with("X"),
		"a header without a name":      with(": a"),
		"a null byte":                  with("X: a\x00b"),
		"a bare carriage return":       with("X: a\rb"),
		"a bare line feed":             with("X: a\nTransfer-Encoding: chunked"),
		"line feeds alone":             line + "\nHost: x\nContent-Length: 2\n\n{}",
		"a line feed at the end":       line + "\r\nHost: x\r\nContent-Length: 2\r\n\n{}",
		"a byte beyond ASCII":          with("X: \x80"),
		"a head too long":              with("X: " + strings.Repeat("a", MaxHead)),
		"a head too long, in part":     line + "\r\nX: " + strings.Repeat("a", MaxHead),
	} {
		t.Run(name, func(t *testing.T) {
			if _, kind := Read([]byte(in), line); kind != Other {
				t.Errorf("read as %v", kind)
			}
		})
	}
}

func TestAnAnswerIsWhatNetHTTPReads(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for _, last := range []bool{false, true} {
		out := AppendAnswer(nil, 201, []byte("Content-Type: application/json\r\n"), []byte("{}\n"), at, last)
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "{}\n" || resp.Status != "201 Created" || resp.Close != last || resp.ContentLength != 3 || resp.Header.Get("Date") != "Fri, 02 Jan 2026 02:04:05 GMT" {
			t.Errorf("read as %+v, %q, %v", resp, body, err)
		}
	}
}

// FuzzRead compares Read with net/http: whatever Read accepts, net/http must accept with the same result.
func FuzzRead(f *testing.F) {
	f.Add([]byte(plain + "{}"))
	f.Add([]byte(line + "\r\nHost: x\r\nContent-Length: 2\r\nX: a\r\n\tb\r\n\r\n{}"))
	f.Add([]byte(line + "\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, kind := Read(in, line)
		if kind == Partial && len(in) > MaxHead+2 {
			t.Fatalf("%d bytes are partial", len(in))
		}
		if kind != Plain {
			return
		}
		for n := range min(h.Size, len(in)) {
			if _, kind := Read(in[:n], line); kind != Partial {
				t.Fatalf("%q is plain, but its first %d bytes are %v", in, n, kind)
			}
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			t.Fatalf("net/http does not read %q: %v", in, err)
		}
		got := fmt.Sprint(r.Method, r.URL, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Trailer, r.Close, r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"))
		want := fmt.Sprint("POST", "/v1/notifications", "HTTP/1.1", string(h.Host), h.Length, []string(nil), http.Header(nil), false, string(h.Authorization), string(h.IdempotencyKey))
		if got != want {
			t.Errorf("%q is %s to net/http and %s here", in, got, want)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	in := []byte(line + "\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 200\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, kind := Read(in, line); kind != Plain {
			b.Fatal(kind)
		}
	}
}
