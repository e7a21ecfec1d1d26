package loadgen

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/http"
)

// request is a publish that is encoded once; each use changes parts of it in place.
type request struct {
	bytes   []byte
	stamps  []int // where the times stand
	numbers []int // positions of the recipients' numbers, which change
	streams []int // positions of the stream id, in HTTP/2
	flow    int   // bytes of DATA frames, which count for the connection's window in HTTP/2
	copies  int   // recipients
	deaf    int   // number of recipients that read nothing; prepare counts again if recipients change
}

// prepare sets the parts that differ between uses.
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

// plainRequest makes a request from content that is already a whole packet.
func plainRequest(c content) *request {
	return &request{bytes: c.bytes, stamps: c.stamps, numbers: c.numbers, copies: c.copies, deaf: c.deaf}
}

// content is the body of a request, before it is encoded for a protocol.
type content struct {
	bytes           []byte
	stamps, numbers []int
	copies, deaf    int
	id              int // where the packet id is, over MQTT
	path, mediaType string
	method          string // of HTTP; empty: POST
}

// httpRequest encodes content as an HTTP request.
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

// grpcRequest encodes content as a unary call. Fields that change must not cross a border between frames; they stand at the beginning.
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
