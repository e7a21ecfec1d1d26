package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/reactor"
)

// publisher is one connection that publishes, one request at a time.
type publisher struct {
	group    *group
	conn     *reactor.Conn
	requests []*request
	due      int64
	copies   int
	deaf     int // of these, to recipients that read nothing

	// HTTP/2 only.
	http    *http2Client
	stream  uint32
	in      grpcMessages
	waiting *request // for the connection's window
	refused int
	bad     error
}

var _ reactor.Handler = (*publisher)(nil)

// send publishes what was due at due. The group's lock is held, or nobody else knows the publisher.
func (p *publisher) send(j job) {
	r := p.requests[j.chunk]
	p.due, p.copies = j.due, r.copies
	if p.http != nil {
		p.stream += 2
	}
	next := p.group.nextRecipient
	if j.to >= 0 {
		next = func() int { return j.to }
	}
	r.prepare(j.due, p.stream, next, p.group.p.cfg.deaf)
	p.deaf = r.deaf
	if p.http != nil {
		if p.http.sendWindow < int64(len(r.bytes)) {
			p.waiting = r
			return
		}
		p.http.sendWindow -= int64(len(r.bytes))
	}
	p.write(r.bytes)
}

func (p *publisher) write(b []byte) {
	if !p.conn.Write(b, nil) {
		p.conn.Abort(errors.New("the server does not read publishes"))
	}
}

// Data implements reactor.Handler.
func (p *publisher) Data(b []byte) (int, error) {
	if p.http != nil {
		p.group.mu.Lock()
		used, send, err := p.http.parse(b, p)
		p.group.mu.Unlock()
		if len(send) > 0 {
			p.write(send)
		}
		if err == nil && p.copies < 0 { // the answer was complete
			p.copies = -p.copies
			p.answer(p.copies-p.refused, p.refused, p.bad)
			p.refused, p.bad = 0, nil
		}
		return used, err
	}
	status, body, n, err := httpResponse(b)
	if err != nil || n == 0 {
		return 0, err
	}
	refused := bytes.Count(body, []byte(`"error":`))
	if status/100 != 2 {
		p.answer(0, p.copies, fmt.Errorf("HTTP status %d: %.300s", status, body))
	} else {
		p.answer(p.copies-refused, refused, firstRefusal(body, refused))
	}
	return n, nil
}

func firstRefusal(body []byte, refused int) error {
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("a copy was refused: %.300s", body[bytes.Index(body, []byte(`"error":`)):])
}

func (p *publisher) answer(accepted, refused int, err error) {
	p.group.answered(p, accepted, refused, err)
}

// Field numbers of godwit.v1.PublishResponse and PublishResult.
const (
	responseResults = 1
	resultError     = 6
)

// data implements http2Sink.
func (p *publisher) data(_ uint32, b []byte, _ bool) error {
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

// headers implements http2Sink: trailers end the call.
func (p *publisher) headers(_ uint32, fields []hpack.HeaderField, end bool) error {
	if !end {
		return nil
	}
	if err := grpcStatus(fields); err != nil {
		p.refused, p.bad = p.copies, err
	}
	p.copies = -p.copies // noticed when the parser has returned
	return nil
}

// window implements http2Sink.
func (p *publisher) window(uint32, uint32) {
	if r := p.waiting; r != nil && p.http.sendWindow >= int64(len(r.bytes)) {
		p.waiting = nil
		p.http.sendWindow -= int64(len(r.bytes))
		p.write(r.bytes)
	}
}

// Drained implements reactor.Handler.
func (p *publisher) Drained() {}

// Tick implements reactor.Handler.
func (p *publisher) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (p *publisher) Closed(err error) { p.group.closed(p, err) }
