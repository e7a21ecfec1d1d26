package loadgen

import (
	"bytes"
	"fmt"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// pubWire is a protocol for publishing with one request at a time. The group's lock is held during each call.
type pubWire interface {
	// begin returns the client's first bytes.
	begin() []byte
	// admit numbers a request and reports whether it may be written now. If not, parse returns its bytes later.
	admit(r *request) bool
	// parse handles the bytes that the server has sent. answer is not nil if they complete the answer to the request, which has the given
	// number of copies.
	parse(b []byte, copies int) (used int, a *answer, send []byte, err error)
}

// answer is the result for a request's copies.
type answer struct {
	accepted, refused int
	err               error
}

// httpPub publishes over HTTP/1.1.
type httpPub struct{}

func (httpPub) begin() []byte { return nil }

func (httpPub) admit(*request) bool { return true }

func (httpPub) parse(b []byte, copies int) (used int, a *answer, send []byte, err error) {
	status, body, n, err := httpResponse(b)
	if err != nil || n == 0 {
		return 0, nil, nil, err
	}
	if status/100 != 2 {
		return n, &answer{0, copies, fmt.Errorf("HTTP status %d: %.300s", status, body)}, nil, nil
	}
	refused := bytes.Count(body, []byte(`"error":`))
	a = &answer{accepted: copies - refused, refused: refused}
	if refused > 0 {
		a.err = fmt.Errorf("a copy was refused: %.300s", body[bytes.Index(body, []byte(`"error":`)):])
	}
	return n, a, nil, nil
}

// grpcPub publishes by unary calls of godwit.v1.Publisher.
type grpcPub struct {
	http    *http2Client
	stream  uint32
	in      grpcMessages
	waiting *request // for the connection's window
	late    []byte   // bytes that waited for window and may be sent now
	refused int
	bad     error
	ended   bool
}

func newGRPCPub() *grpcPub { return &grpcPub{http: newHTTP2Client(), stream: ^uint32(0)} } // the first is 1

func (p *grpcPub) begin() []byte { return p.http.begin() }

func (p *grpcPub) admit(r *request) bool {
	p.stream += 2
	r.setStream(p.stream)
	if p.http.sendWindow < int64(r.flow) {
		p.waiting = r
		return false
	}
	p.http.sendWindow -= int64(r.flow)
	return true
}

func (p *grpcPub) parse(b []byte, copies int) (used int, a *answer, send []byte, err error) {
	used, send, err = p.http.parse(b, p)
	send, p.late = append(send, p.late...), nil
	if err == nil && p.ended {
		if p.bad != nil && p.refused == 0 {
			p.refused = copies
		}
		a = &answer{copies - p.refused, p.refused, p.bad}
		p.refused, p.bad, p.ended = 0, nil, false
	}
	return used, a, send, err
}

// Field numbers of godwit.v1.PublishResponse and PublishResult.
const (
	responseResults = 1
	resultError     = 6
)

// data implements http2Sink.
func (p *grpcPub) data(_ uint32, b []byte, _ bool) error {
	return p.in.feed(b, func(m []byte) error {
		for len(m) > 0 {
			num, typ, n := protowire.ConsumeTag(m)
			if n < 0 || num != responseResults || typ != protowire.BytesType {
				return errFrame
			}
			result, size := protowire.ConsumeBytes(m[n:])
			if size < 0 {
				return errFrame
			}
			m = m[n+size:]
			if refusedProto(result) {
				p.refused++
				p.bad = fmt.Errorf("a copy was refused: %.300q", result)
			}
		}
		return nil
	})
}

func refusedProto(result []byte) bool {
	for len(result) > 0 {
		num, _, n := protowire.ConsumeField(result)
		if n < 0 || num == resultError {
			return true
		}
		result = result[n:]
	}
	return false
}

// headers implements http2Sink. The trailers end the call.
func (p *grpcPub) headers(_ uint32, fields []hpack.HeaderField, end bool) error {
	if end {
		if err := grpcStatus(fields); err != nil {
			p.bad = err
		}
		p.ended = true
	}
	return nil
}

// window implements http2Sink.
func (p *grpcPub) window(uint32, uint32) {
	if r := p.waiting; r != nil && p.http.sendWindow >= int64(r.flow) {
		p.waiting = nil
		p.http.sendWindow -= int64(r.flow)
		p.late = append(p.late, r.bytes...)
	}
}
