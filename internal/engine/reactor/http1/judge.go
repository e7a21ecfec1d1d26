package http1

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Verdict decides about a connection after the judge has checked how a request marks the end of its body.
type Verdict uint32

// Verdicts. A proxy in front may interpret a request differently from net/http, and then take the bytes after it for another request. So a
// connection ends after an ambiguous request (RFC 9112, sections 5.2, 6.1 and 11.2).
const (
	Keep   Verdict = iota // every server reads it alike
	Last                  // the request is answered, and nothing after it is read
	Refuse                // the request is answered with 400, and nothing after it is read
)

// Judge examines a connection's bytes on their way to net/http, which hides from handlers what it has corrected: two lengths, a length
// beside chunks, folded lines. It follows bodies with a length, and stops at the first verdict other than Keep, because no later request is
// served. The zero Judge is at the beginning of a request.
type Judge struct {
	verdict atomic.Uint32

	off     bool   // the judge no longer checks anything
	inHead  bool   // the request line was read, and the head has not ended
	old     bool   // it says HTTP/1.0
	doubt   bool   // the request must be refused
	last    bool   // the request must be the connection's last
	lengths int    // how many Content-Lengths there are
	chunked bool   // there is a Transfer-Encoding
	length  int64  // that the head says
	body    int64  // bytes of a body to skip
	line    []byte // beginning of an incomplete line
}

// mostLine limits the kept part of a line, in bytes. Longer lines that determine where a body ends are refused.
const mostLine = 256

// Saw examines the connection's next bytes.
func (j *Judge) Saw(b []byte) {
	for len(b) > 0 && !j.off {
		if j.body > 0 {
			n := min(j.body, int64(len(b)))
			j.body -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			j.line = append(j.line, b[:min(len(b), max(mostLine-len(j.line), 0))]...)
			return
		}
		line := b[:end]
		if len(j.line) > 0 {
			line = append(j.line, line[:min(len(line), max(mostLine-len(j.line), 0))]...)
			j.line = nil
		}
		b = b[end+1:]
		j.read(line)
	}
}

// read handles a line without its line feed.
func (j *Judge) read(line []byte) {
	text, ended := bytes.CutSuffix(line, []byte{'\r'})
	switch {
	case !j.inHead && bytes.HasPrefix(text, []byte("PRI * HTTP/2")), !j.inHead && len(text) > 0 && (text[0] < ' ' || text[0] >= 0x7f):
		j.off = true // HTTP/2, or TLS
		return
	case len(text) == 0 && j.inHead:
		j.last = j.last || !ended
		j.endHead()
		return
	case len(text) == 0:
		return // net/http decides about empty lines before a request
	}
	if !ended && len(line) < mostLine { // the end of a longer line was not kept
		j.last = true
	}
	if !j.inHead {
		j.inHead, j.old = true, bytes.HasSuffix(text, []byte("HTTP/1.0"))
		return
	}
	j.field(text)
}

// field takes a header line.
func (j *Judge) field(text []byte) {
	name, value, ok := bytes.Cut(text, []byte{':'})
	value = bytes.Trim(value, " \t")
	switch {
	case text[0] == ' ', text[0] == '\t', bytes.IndexByte(text, '\r') >= 0: // a folded line, or two
		j.doubt = true
	case !ok: // net/http refuses it, unless its colon comes later
	case bytes.ContainsAny(name, " \t"):
		j.doubt = true
	case is(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 63)
		j.lengths++
		j.length = int64(n) // of 63 bits
		j.doubt = j.doubt || err != nil || j.lengths > 1 || len(text) >= mostLine
	case is(name, "transfer-encoding"):
		j.doubt = j.doubt || j.chunked || !is(value, "chunked")
		j.chunked = true
	}
}

// endHead judges a head.
func (j *Judge) endHead() {
	switch {
	case j.doubt, j.chunked && (j.lengths > 0 || j.old):
		j.verdict.Store(uint32(Refuse))
		j.off = true
	case j.chunked, j.last: // chunks are not followed
		j.verdict.Store(uint32(Last))
		j.off = true
	}
	j.body = j.length
	j.inHead, j.old, j.lengths, j.length = false, false, 0, 0
}

type judgeKey struct{}

// WithJudge stores a connection's judge in the context of its requests, for a server's ConnContext.
func WithJudge(ctx context.Context, j *Judge) context.Context {
	return context.WithValue(ctx, judgeKey{}, j)
}

// JudgeOf decides whether a request's connection stays open. Over TLS, the judge cannot see the plain bytes, so the fields of net/http
// decide. They lack the Transfer-Encoding of HTTP/1.0, so an HTTP/1.0 client over TLS can send only one request on each connection.
func JudgeOf(r *http.Request) Verdict {
	if r.ProtoMajor != 1 {
		return Keep
	}
	verdict := Keep
	if j, ok := r.Context().Value(judgeKey{}).(*Judge); ok && r.TLS == nil {
		verdict = Verdict(j.verdict.Load())
	} else if r.ProtoMinor == 0 {
		verdict = Last
	}
	if len(r.TransferEncoding) > 0 {
		verdict = max(verdict, Last)
	}
	return verdict
}
