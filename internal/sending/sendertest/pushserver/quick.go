package pushserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	quickBuffer  = 64 << 10
	quickStreams = 250     // as net/http
	quickWindow  = 1 << 20 // of a connection
)

// quick is a connection of a server for load tests: one goroutine reads, checks, counts and answers messages, as many at once as have
// arrived.
type quick struct {
	s          *Server
	in         *bufio.Reader
	out        *bufio.Writer
	fr         *http2.Framer
	open       map[uint32]*quickMessage
	block      bytes.Buffer
	enc        *hpack.Encoder
	uncredited uint32 // received bytes not yet returned to the client's window
}

type quickMessage struct {
	head head
	path string
	size int
}

// serveQuick serves a connection after its handshake, until it ends.
func (s *Server) serveQuick(_ *http.Server, c *tls.Conn, _ http.Handler) {
	q := &quick{s: s, in: bufio.NewReaderSize(c, quickBuffer), out: bufio.NewWriterSize(c, quickBuffer), open: make(map[uint32]*quickMessage)}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(q.in, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	q.enc = hpack.NewEncoder(&q.block)
	q.fr = http2.NewFramer(q.out, q.in)
	q.fr.SetReuseFrames()
	q.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	streams := uint32(quickStreams)
	if s.opts.Streams > 0 {
		streams = uint32(s.opts.Streams) // small
	}
	err := q.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: streams})
	if err == nil {
		err = q.fr.WriteWindowUpdate(0, quickWindow)
	}
	for err == nil {
		if q.in.Buffered() == 0 {
			if err = q.out.Flush(); err != nil {
				return
			}
		}
		var f http2.Frame
		if f, err = q.fr.ReadFrame(); err == nil {
			err = q.handle(f)
		}
	}
}

func (q *quick) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		m := &quickMessage{}
		for i := range f.Fields {
			m.field(&f.Fields[i])
		}
		if q.open[f.StreamID] = m; f.StreamEnded() {
			return q.answer(f.StreamID, m)
		}
	case *http2.DataFrame:
		return q.data(f)
	case *http2.RSTStreamFrame:
		delete(q.open, f.StreamID)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return q.fr.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return q.fr.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		return io.EOF
	}
	return nil
}

func (m *quickMessage) field(f *hpack.HeaderField) {
	switch f.Name {
	case ":method":
		m.head.method = f.Value
	case ":path":
		m.path = f.Value
	case "ttl":
		m.head.ttl = f.Value
	case "topic":
		m.head.topic = f.Value
	case "urgency":
		m.head.urgency = f.Value
	case "content-encoding":
		m.head.encoding = f.Value
	case "authorization":
		m.head.authorization = f.Value
	}
}

func (q *quick) data(f *http2.DataFrame) error {
	if q.uncredited += f.Length; q.uncredited >= quickWindow/2 {
		if err := q.fr.WriteWindowUpdate(0, q.uncredited); err != nil {
			return err
		}
		q.uncredited = 0
	}
	m := q.open[f.StreamID]
	if m == nil {
		return nil
	}
	if m.size += len(f.Data()); f.StreamEnded() {
		return q.answer(f.StreamID, m)
	}
	return nil
}

// answer checks and counts a message, and answers it as its endpoint's behaviour says.
func (q *quick) answer(stream uint32, m *quickMessage) error {
	delete(q.open, stream)
	s := q.s
	s.requests.Add(1)
	id := strings.TrimPrefix(m.path, "/push/")
	e := s.find(id)
	b := s.behaves(e)
	if b.Status == 0 {
		b.Status = http.StatusCreated
		if status, _ := s.check(&m.head, m.size); status != 0 {
			b.Status = status
		}
	}
	q.block.Reset()
	fields := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(b.Status)}}
	if b.Status/100 == 2 {
		s.accepted.Add(1)
		e.mu.Lock()
		e.accepted++
		e.mu.Unlock()
		fields = append(fields, hpack.HeaderField{Name: "location", Value: s.URL + "/message/" + id, Sensitive: true})
	}
	if b.RetryAfter > 0 {
		fields = append(fields, hpack.HeaderField{Name: "retry-after", Value: strconv.Itoa(int(b.RetryAfter.Seconds()))})
	}
	for i := range fields {
		if err := q.enc.WriteField(fields[i]); err != nil {
			return err
		}
	}
	return q.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: q.block.Bytes(), EndHeaders: true, EndStream: true})
}
