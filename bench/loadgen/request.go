package loadgen

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/http"
)

// request is a publish, encoded once and then changed in place for each use.
type request struct {
	bytes   []byte
	stamps  []int // where the times stand
	numbers []int // positions of the numbers of changing recipients
	streams []int // positions of the stream's number, in HTTP/2
	flow    int   // bytes that count for the connection's window, in HTTP/2: those of DATA alone
	copies  int   // recipients
	deaf    int   // recipients among these that read nothing; counted again by prepare if recipients change
}

// prepare sets the parts that differ from one use to the next.
func (r *request) prepare(due int64, next func() int, deaf func(int) bool) {
	if len(r.numbers) > 0 {
		r.deaf = 0
	}
	for _, at := range r.stamps {
		putStamp(r.bytes[at:], due)
	}
	for _, at := range r.numbers {
		n := next()
		putNumber(r.bytes[at:], n)
		if deaf(n) {
			r.deaf++
		}
	}
}

func (r *request) setStream(stream uint32) {
	for _, at := range r.streams {
		binary.BigEndian.PutUint32(r.bytes[at:], stream)
	}
}

// plainRequest is content that is a whole packet already.
func plainRequest(c content) *request {
	return &request{bytes: c.bytes, stamps: c.stamps, numbers: c.numbers, copies: c.copies, deaf: c.deaf}
}

// content is the body of a request, before it is encoded for a protocol.
type content struct {
	bytes           []byte
	stamps, numbers []int
	copies, deaf    int
	path, mediaType string
	method          string // of HTTP; empty: POST
}

// httpRequest wraps content as an HTTP request.
func httpRequest(t Target, c content) *request {
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		cmp.Or(c.method, http.MethodPost), c.path, t.HTTP, t.Key, c.mediaType, len(c.bytes))
	r := &request{bytes: append(head, c.bytes...), copies: c.copies, deaf: c.deaf}
	for _, at := range c.stamps {
		r.stamps = append(r.stamps, len(head)+at)
	}
	for _, at := range c.numbers {
		r.numbers = append(r.numbers, len(head)+at)
	}
	return r
}

// grpcRequest wraps content as a unary call. No field that changes may lie across a border of frames: they stand at
// the beginning.
func grpcRequest(t Target, c content) *request {
	r := &request{bytes: appendRequest(nil, 0, t, c.path), copies: c.copies, deaf: c.deaf, streams: []int{5}}
	head := len(r.bytes)
	r.bytes = appendGRPCMessage(r.bytes, 0, c.bytes, true)
	r.flow = grpcMessageHead + len(c.bytes)
	place := func(at int) int {
		at += 5 // the message's length precedes it
		return head + at + h2Head*(1+at/h2MaxFrame)
	}
	for at := head; at < len(r.bytes); at += h2Head + h2MaxFrame {
		r.streams = append(r.streams, at+5)
	}
	for _, at := range c.stamps {
		r.stamps = append(r.stamps, place(at))
	}
	for _, at := range c.numbers {
		r.numbers = append(r.numbers, place(at))
	}
	return r
}
