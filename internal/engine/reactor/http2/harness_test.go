package http2

import (
	"bytes"
	"strings"
	"testing"
	"time"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// link is a connection without a network: the test acts as its client and as its loop.
type link struct {
	t       testing.TB
	conn    *Conn
	handler *recorder

	out    bytes.Buffer // bytes from the server that the client has not read
	in     bytes.Buffer // bytes that the client is about to send
	client *wire.Framer // writes to in, reads from out
	enc    *hpack.Encoder
	block  bytes.Buffer
	dec    *hpack.Decoder
	rest   []byte // sent bytes that the server has not used

	queued  int  // bytes that the simulated socket has not accepted
	full    bool // refuse writes
	deaf    bool // for good
	nudged  bool
	tickAt  time.Time
	closing bool
	aborted bool
	err     error
}

func (l *link) Write(head, tail []byte) bool {
	if l.full || l.deaf || l.closing || l.aborted {
		return false
	}
	l.out.Write(head)
	l.out.Write(tail)
	return true
}

func (l *link) Queued() int               { return l.queued }
func (l *link) CloseAfterFlush(err error) { l.closing, l.err = true, err }
func (l *link) Abort(err error)           { l.aborted, l.err = true, err }
func (l *link) Deaf() bool                { return l.deaf }
func (l *link) SetTimer(d time.Duration)  { l.tickAt = time.Now().Add(d) }
func (l *link) Nudge()                    { l.nudged = true }
func (l *link) Cork()                     {}
func (l *link) Uncork()                   {}

// recorder is a handler that records its streams' callbacks.
type recorder struct {
	streams []*recorded
	open    func(*recorded) // may answer at once
}

type recorded struct {
	*Stream
	headers                 Headers
	data                    bytes.Buffer
	half, closed            bool
	drained, alive, resumed int
	err                     error
}

func (r *recorder) Open(s *Stream, h *Headers) StreamHandler {
	rec := &recorded{Stream: s, headers: Headers{Method: h.Method, Scheme: h.Scheme, Authority: h.Authority, Path: h.Path}}
	rec.headers.Fields = append(rec.headers.Fields, h.Fields...)
	r.streams = append(r.streams, rec)
	if r.open != nil {
		r.open(rec)
	}
	return rec
}

func (r *recorded) Data(b []byte) { r.data.Write(b) }
func (r *recorded) HalfClosed()   { r.half = true }
func (r *recorded) Resumed()      { r.resumed++ }
func (r *recorded) Drained()      { r.drained++ }
func (r *recorded) Alive()        { r.alive++ }
func (r *recorded) Closed(err error) {
	if r.closed {
		panic("closed twice")
	}
	r.closed, r.err = true, err
}

// newLink connects a client that has sent its preface and received the server's.
func newLink(t testing.TB, cfg Config) *link {
	l := silentLink(t, NewServer(cfg, &recorder{}))
	l.in.WriteString(preface)
	l.client.WriteSettings()
	l.client.WriteSettingsAck()
	l.send()
	l.expect(wire.FrameSettings)
	for l.peek() == wire.FrameWindowUpdate {
		l.next()
	}
	l.expect(wire.FrameSettings) // the acknowledgement
	return l
}

// unacknowledged connects a client that has sent its preface and does not acknowledge the server's SETTINGS.
func unacknowledged(t testing.TB, cfg Config) *link {
	l := silentLink(t, NewServer(cfg, &recorder{}))
	l.in.WriteString(preface)
	l.client.WriteSettings()
	l.send()
	l.out.Reset()
	return l
}

func silentLink(t testing.TB, s *Server) *link {
	l := &link{t: t, handler: s.handler.(*recorder)}
	l.client = wire.NewFramer(&l.in, &l.out)
	l.client.SetMaxReadFrameSize(1 << 20)
	l.client.AllowIllegalWrites = true
	l.enc = hpack.NewEncoder(&l.block)
	l.dec = hpack.NewDecoder(0, nil)
	l.conn = s.NewConn(l)
	t.Cleanup(func() { l.conn.Closed(nil) })
	return l
}

// send delivers the client's writes, and lets the loop do the posted work.
func (l *link) send() {
	l.t.Helper()
	l.rest = append(l.rest, l.in.Bytes()...)
	l.in.Reset()
	used, err := l.conn.Data(l.rest)
	if err != nil {
		l.t.Fatalf("Data: %v", err)
	}
	l.rest = append([]byte(nil), l.rest[used:]...)
	l.drain()
}

func (l *link) drain() {
	for l.nudged {
		l.nudged = false
		l.conn.Drained()
	}
}

// sleep advances the time, within synctest.
func (l *link) sleep(d time.Duration) {
	for end := time.Now().Add(d); ; {
		next := l.tickAt
		if next.IsZero() || next.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(next))
		l.tickAt = time.Time{}
		l.conn.Tick(time.Now())
		l.drain()
	}
}

// request sends HEADERS.
func (l *link) request(id uint32, end bool, fields ...string) {
	l.t.Helper()
	l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: end, BlockFragment: l.encode(fields...)})
	l.send()
}

// encode encodes name and value pairs as a header block; without any, it encodes a plain request's.
func (l *link) encode(fields ...string) []byte {
	l.block.Reset()
	if len(fields) == 0 || !strings.HasPrefix(fields[0], ":") {
		fields = append([]string{":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "x"}, fields...)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := l.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			l.t.Fatal(err)
		}
	}
	return bytes.Clone(l.block.Bytes())
}

// stream opens a stream and returns it as the handler sees it.
func (l *link) stream(id uint32, end bool) *recorded {
	l.t.Helper()
	n := len(l.handler.streams)
	l.request(id, end)
	if len(l.handler.streams) != n+1 {
		l.t.Fatalf("stream %d was not opened", id)
	}
	return l.handler.streams[n]
}

// next reads the server's next frame; nil: there is none.
func (l *link) next() wire.Frame {
	l.t.Helper()
	if l.out.Len() == 0 {
		return nil
	}
	f, err := l.client.ReadFrame()
	if err != nil {
		l.t.Fatalf("the server wrote nonsense: %v", err)
	}
	return f
}

func (l *link) peek() wire.FrameType {
	if l.out.Len() < frameHead {
		return 0xff
	}
	return wire.FrameType(l.out.Bytes()[3])
}

// expect reads the next frame and checks its type.
func (l *link) expect(typ wire.FrameType) wire.Frame {
	l.t.Helper()
	f := l.next()
	if f == nil || f.Header().Type != typ {
		l.t.Fatalf("got %v, want %v", f, typ)
	}
	return f
}

// quiet checks that the server sends nothing.
func (l *link) quiet() {
	l.t.Helper()
	if f := l.next(); f != nil {
		l.t.Fatalf("got %v, want nothing", f)
	}
}

// wantReset insists on a RST_STREAM.
func (l *link) wantReset(id uint32, code ErrCode) {
	l.t.Helper()
	f, ok := l.expect(wire.FrameRSTStream).(*wire.RSTStreamFrame)
	if !ok || f.StreamID != id || ErrCode(f.ErrCode) != code {
		l.t.Fatalf("got %v, want a reset of %d with %s", f, id, code)
	}
}

// wantGoAway skips frames, and checks that the connection ends with this code.
func (l *link) wantGoAway(code ErrCode) {
	l.t.Helper()
	for f := l.next(); f != nil; f = l.next() {
		if g, ok := f.(*wire.GoAwayFrame); ok {
			if ErrCode(g.ErrCode) != code {
				l.t.Fatalf("GOAWAY says %s (%s), want %s", ErrCode(g.ErrCode), g.DebugData(), code)
			}
			if !l.closing {
				l.t.Fatal("the connection is not closed")
			}
			return
		}
	}
	l.t.Fatalf("no GOAWAY came, want one with %s", code)
}

// fields reads a HEADERS frame and returns its fields.
func (l *link) fields() map[string]string {
	l.t.Helper()
	f, ok := l.expect(wire.FrameHeaders).(*wire.HeadersFrame)
	if !ok {
		l.t.Fatal("not HEADERS")
	}
	list, err := l.dec.DecodeFull(f.HeaderBlockFragment())
	if err != nil {
		l.t.Fatalf("header block: %v", err)
	}
	m := map[string]string{}
	for _, h := range list {
		m[h.Name] = h.Value
	}
	return m
}

// body reads the DATA frames of a stream until there are no more.
func (l *link) body(id uint32) string {
	l.t.Helper()
	var b bytes.Buffer
	for l.peek() == wire.FrameData {
		f, ok := l.next().(*wire.DataFrame)
		if !ok || f.StreamID != id {
			l.t.Fatalf("got %v, want DATA of %d", f, id)
		}
		b.Write(f.Data())
	}
	return b.String()
}
