package http1

import (
	"strings"
	"testing"
)

func TestRequestsThatProxiesMayReadOtherwiseEndTheirConnection(t *testing.T) {
	const next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		in   string
		want Verdict
	}{
		"no body":                       {next, Keep},
		"a body":                        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", Keep},
		"a body that looks like a head": {"POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\nTransfer-Encoding: chunked\r\n\r\n", Keep},
		"a body with folded lines":      {"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\n  \"a\": 1}", Keep},
		"chunks":                        {"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked \r\n\r\n", Last},
		"an old client":                 {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Keep},
		"line feeds alone":              {"GET / HTTP/1.1\nHost: x\n\n", Last},
		"one line feed alone":           {"GET / HTTP/1.1\r\nHost: x\r\nX: a\n\r\n", Last},
		"a length and chunks":           {"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Refuse},
		"chunks and a length":           {"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", Refuse},
		"two lengths":                   {"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Refuse},
		"a length twice":                {"POST / HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n", Refuse},
		"a list of lengths":             {"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n", Refuse},
		"a signed length":               {"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", Refuse},
		"an empty length":               {"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", Refuse},
		"an unknown coding":             {"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", Refuse},
		"two codings":                   {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Refuse},
		"chunks twice":                  {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", Refuse},
		"a quoted coding":               {"POST / HTTP/1.1\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", Refuse},
		"a vertical tab":                {"POST / HTTP/1.1\r\nTransfer-Encoding: \vchunked\r\n\r\n", Refuse},
		"chunks of an old client":       {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refuse},
		"a folded coding":               {"POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", Refuse},
		"a folded line":                 {"GET / HTTP/1.1\r\nX: a\r\n\tb\r\n\r\n", Refuse},
		"a fold first":                  {"GET / HTTP/1.1\r\n X: a\r\n\r\n", Refuse},
		"a space before the colon":      {"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", Refuse},
		"a carriage return alone":       {"POST / HTTP/1.1\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n", Refuse},
		"a length after a long line":    {"POST / HTTP/1.1\r\nX: " + strings.Repeat("a", 5000) + "\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Refuse},
		"a long length":                 {"POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat("0", 300) + "5\r\n\r\n", Refuse},
		"a second request":              {"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello" + "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Refuse},
		"HTTP/2":                        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n X: a\r\n\r\n", Keep},
		"TLS":                           {"\x16\x03\x01\r\n X: a\r\n\r\n", Keep},
	} {
		for _, size := range []int{len(c.in), 1, 7} {
			var j Judge
			for rest := c.in; len(rest) > 0; {
				n := min(size, len(rest))
				j.Saw([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got := Verdict(j.verdict.Load()); got != c.want {
				t.Errorf("%s in parts of %d bytes: verdict %d, want %d", name, size, got, c.want)
			}
			if j.Saw([]byte("\r\n\r\n")); c.want == Keep && len(j.line) > 0 {
				t.Errorf("%s: %d bytes are kept", name, len(j.line))
			}
		}
	}
}
