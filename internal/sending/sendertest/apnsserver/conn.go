package apnsserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// window limits the bytes in flight on a connection: no test sends as many.
const window = 1 << 24

// conn is a connection. One goroutine reads and answers; a test may end it from outside.
type conn struct {
	s    *Server
	nc   *tls.Conn
	open map[uint32]*Message // begun and not answered
	last uint32
	gone bool // the connection sent a GOAWAY naming last; guarded by the server's lock, like last

	authorized bool
	first      func() error // accepts the first message after all messages sent together with it have arrived

	mu    sync.Mutex // of what is written
	fr    *http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

// serve serves a connection after its handshake, until it ends.
func (s *Server) serve(_ *http.Server, nc *tls.Conn, _ http.Handler) {
	in := bufio.NewReader(nc)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(in, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	c := &conn{s: s, nc: nc, open: make(map[uint32]*Message), fr: http2.NewFramer(nc, in)}
	c.enc = hpack.NewEncoder(&c.block)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.mu.Lock()
	s.conns[c] = true
	s.opened++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	err := c.write(func() error {
		err := c.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		if err == nil {
			err = c.fr.WriteWindowUpdate(0, window)
		}
		return err
	})
	for err == nil {
		var f http2.Frame
		if f, err = c.fr.ReadFrame(); err == nil {
			err = c.handle(f)
		}
	}
}

func (c *conn) write(what func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return what()
}

func (c *conn) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.begin(f)
	case *http2.DataFrame:
		m := c.open[f.StreamID]
		if m == nil {
			return nil
		}
		m.Payload = append(m.Payload, f.Data()...)
		if f.StreamEnded() {
			return c.whole(f.StreamID, m)
		}
	case *http2.RSTStreamFrame:
		delete(c.open, f.StreamID)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.write(c.fr.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.fr.WritePing(true, f.Data) })
		}
		if take := c.first; take != nil {
			c.first = nil
			return take()
		}
	}
	return nil
}

// whole handles a message that has arrived completely. The first message is answered only after the client has answered a ping: by then all
// messages that the client sent together have arrived.
func (c *conn) whole(id uint32, m *Message) error {
	if c.authorized {
		return c.take(id, m)
	}
	c.first = func() error { return c.take(id, m) }
	return c.write(func() error { return c.fr.WritePing(false, [8]byte{1}) })
}

// begin begins to receive a message, if the connection may have another one.
func (c *conn) begin(f *http2.MetaHeadersFrame) error {
	most := 1
	if c.authorized {
		most = c.s.opts.Streams
	}
	if len(c.open) >= most {
		c.s.violated("more messages at once than " + strconv.Itoa(most))
		return c.write(func() error { return c.fr.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream) })
	}
	m := &Message{}
	for _, field := range f.Fields {
		m.field(field.Name, field.Value)
	}
	if !c.admits(f.StreamID) {
		return nil
	}
	c.open[f.StreamID] = m
	if f.StreamEnded() {
		return c.whole(f.StreamID, m)
	}
	return nil
}

// admits reports whether the connection still processes a message.
func (c *conn) admits(id uint32) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.gone {
		return false
	}
	c.last = id
	c.s.requests++
	return true
}

func (s *Server) violated(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, what)
}

func (m *Message) field(name, value string) {
	fields := map[string]*string{
		":method": &m.method, ":path": &m.path, "authorization": &m.Authorization, "apns-id": &m.ID, "apns-topic": &m.Topic,
		"apns-push-type": &m.PushType, "apns-priority": &m.Priority, "apns-expiration": &m.Expiration, "apns-collapse-id": &m.Collapse,
		"apns-channel-id": &m.Channel, "apns-request-id": &m.RequestID,
	}
	if to := fields[name]; to != nil {
		*to = value
	}
}

// take answers a message.
func (c *conn) take(id uint32, m *Message) error {
	b := c.s.authenticate(m.Authorization)
	if b.Status == 0 {
		if err := c.authorize(); err != nil {
			return err
		}
		b = c.s.accept(m)
	}
	switch {
	case b.GoAway != "" && b.Break:
		c.leave(id, b.GoAway)
		return c.nc.CloseWrite() // the client closes its side when it has read the end
	case b.GoAway != "":
		delete(c.open, id)
		c.leave(id-1, b.GoAway)
		return nil
	case b.Break:
		return io.EOF
	case b.Hang:
		return nil
	}
	delete(c.open, id)
	return c.answer(id, m, b)
}

// authorize raises the limit of concurrent messages from one.
func (c *conn) authorize() error {
	if c.authorized {
		return nil
	}
	c.authorized = true
	return c.write(func() error {
		return c.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.s.opts.Streams)}) // small
	})
}

// leave ends the connection.
func (c *conn) leave(last uint32, reason string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.goAway(last, reason)
}

// goAway sends a GOAWAY. The caller holds the server's lock.
func (c *conn) goAway(last uint32, reason string) {
	c.gone = true
	said, _ := json.Marshal(map[string]string{"reason": reason}) // a text
	_ = c.write(func() error { return c.fr.WriteGoAway(last, http2.ErrCodeNo, said) })
}

func (c *conn) answer(id uint32, m *Message, b Behaviour) error {
	body := []byte(b.Body)
	if b.Status == 0 {
		b.Status = http.StatusOK
	}
	if b.Reason != "" {
		v := map[string]any{"reason": b.Reason}
		if !b.Since.IsZero() {
			v["timestamp"] = b.Since.UnixMilli()
		}
		body, _ = json.Marshal(v)
	}
	fields := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(b.Status)}, {Name: "apns-id", Value: m.ID}}
	if b.channel != "" {
		fields = append(fields, hpack.HeaderField{Name: "apns-channel-id", Value: b.channel})
	}
	if b.RetryAfter > 0 {
		fields = append(fields, hpack.HeaderField{Name: "retry-after", Value: strconv.Itoa(int(b.RetryAfter / time.Second))})
	}
	return c.write(func() error {
		c.block.Reset()
		for _, f := range fields {
			_ = c.enc.WriteField(f) // into memory
		}
		err := c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: len(body) == 0})
		if err == nil && len(body) > 0 {
			err = c.fr.WriteData(id, true, body)
		}
		return err
	})
}
