package loadgen

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Frame types and flags of HTTP/2 (RFC 9113).
const (
	h2Data         = 0x0
	h2Headers      = 0x1
	h2Reset        = 0x3
	h2Settings     = 0x4
	h2Ping         = 0x6
	h2GoAway       = 0x7
	h2WindowUpdate = 0x8

	h2EndStream  = 0x1
	h2Ack        = 0x1
	h2EndHeaders = 0x4
	h2Padded     = 0x8

	h2Head     = 9
	h2MaxFrame = 16 << 10
	h2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	// h2Window is the number of bytes that a server may send ahead, on a stream and on the connection. The client returns credit whenever
	// half of it is used.
	h2Window = 4 << 20

	h2DefaultWindow = 65535
)

// http2Client is the client side of HTTP/2 for gRPC. It has no push, sends no padding and uses no header table.
type http2Client struct {
	credit     uint32 // bytes received on the connection and not yet credited to the server
	sendWindow int64  // on the connection
	initWindow int64  // initial window of a new stream, from the server's settings
	dec        *hpack.Decoder
}

// http2Sink receives the content of a connection. Slices are valid only during the call.
type http2Sink interface {
	data(stream uint32, p []byte, end bool) error
	headers(stream uint32, fields []hpack.HeaderField, end bool) error
	// window reports that n more bytes may be sent: on a stream, or on the connection if stream is 0.
	window(stream, n uint32)
}

func newHTTP2Client() *http2Client {
	return &http2Client{sendWindow: h2DefaultWindow, initWindow: h2DefaultWindow, dec: hpack.NewDecoder(4096, nil)}
}

// begin is the connection preface.
func (c *http2Client) begin() []byte {
	b := []byte(h2Preface)
	b = appendH2Head(b, 12, h2Settings, 0, 0)
	b = appendSetting(b, 0x2, 0) // no push
	b = appendSetting(b, 0x4, h2Window)
	return appendH2Update(b, 0, h2Window-h2DefaultWindow)
}

func appendH2Head(b []byte, n int, typ, flags byte, stream uint32) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), typ, flags, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendSetting(b []byte, id uint16, v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), v)
}

func appendH2Update(b []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendH2Head(b, 4, h2WindowUpdate, 0, stream), n)
}

// appendRequest appends the headers that open a stream with a gRPC POST request.
func appendRequest(b []byte, stream uint32, t Target, path string, more ...[2]string) []byte {
	scheme := "http"
	if t.TLS {
		scheme = "https"
	}
	fields := [][2]string{
		{":method", "POST"},
		{":scheme", scheme},
		{":path", path},
		{":authority", t.GRPC},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}
	if t.Key != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + t.Key})
	}
	fields = append(fields, more...)
	at := len(b)
	b = appendH2Head(b, 0, h2Headers, h2EndHeaders, stream)
	for _, f := range fields {
		b = append(b, 0) // a literal without indexing, so that these bytes serve every request
		b = appendHpackString(appendHpackString(b, f[0]), f[1])
	}
	n := len(b) - at - h2Head
	b[at], b[at+1], b[at+2] = byte(n>>16), byte(n>>8), byte(n)
	return b
}

// appendHpackString appends a string of up to 254 bytes without Huffman coding (RFC 7541, section 5.2).
func appendHpackString(b []byte, s string) []byte {
	if len(s) < 0x7f {
		return append(append(b, byte(len(s))), s...)
	}
	return append(append(b, 0x7f, byte(len(s)-0x7f)), s...)
}

// grpcMessageHead is the number of bytes before a gRPC message: the compression flag and the length.
const grpcMessageHead = 1 + 4

// appendGRPCMessage appends a gRPC message in DATA frames.
func appendGRPCMessage(b []byte, stream uint32, m []byte, end bool) []byte {
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	for len(body) > 0 {
		n := min(len(body), h2MaxFrame)
		var flags byte
		if end && n == len(body) {
			flags = h2EndStream
		}
		b = append(appendH2Head(b, n, h2Data, flags, stream), body[:n]...)
		body = body[n:]
	}
	return b
}

// parse handles the complete frames in b. send holds the bytes that the protocol requires in answer.
func (c *http2Client) parse(b []byte, sink http2Sink) (used int, send []byte, err error) {
	for len(b)-used >= h2Head {
		p := b[used:]
		n := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
		if len(p) < h2Head+n {
			break
		}
		used += h2Head + n
		stream := binary.BigEndian.Uint32(p[5:]) &^ (1 << 31)
		if send, err = c.frame(p[3], p[4], stream, p[h2Head:h2Head+n], sink, send); err != nil {
			break
		}
	}
	return used, send, err
}

func (c *http2Client) frame(typ, flags byte, stream uint32, p []byte, sink http2Sink, send []byte) ([]byte, error) {
	switch typ {
	case h2Data:
		return c.data(flags, stream, p, sink, send)
	case h2Headers:
		if flags&h2EndHeaders == 0 || flags&h2Padded != 0 {
			return send, errors.New("the server sent headers of an unexpected form")
		}
		fields, err := c.dec.DecodeFull(p)
		if err != nil {
			return send, fmt.Errorf("decode headers: %w", err)
		}
		return send, sink.headers(stream, fields, flags&h2EndStream != 0)
	case h2Settings:
		return c.settings(flags, p, sink, send), nil
	case h2Ping:
		if flags&h2Ack == 0 {
			send = append(appendH2Head(send, len(p), h2Ping, h2Ack, 0), p...)
		}
	case h2WindowUpdate:
		if len(p) == 4 {
			n := binary.BigEndian.Uint32(p)
			if stream == 0 {
				c.sendWindow += int64(n)
			}
			sink.window(stream, n)
		}
	case h2Reset:
		return send, fmt.Errorf("the server reset a stream with code %x", p)
	case h2GoAway:
		return send, fmt.Errorf("the server said GOAWAY %.100q", p)
	}
	return send, nil
}

func (c *http2Client) data(flags byte, stream uint32, p []byte, sink http2Sink, send []byte) ([]byte, error) {
	if flags&h2Padded != 0 {
		return send, errors.New("the server sent padded data")
	}
	c.credit += uint32(len(p))
	if c.credit >= h2Window/2 {
		send = appendH2Update(send, 0, c.credit)
		c.credit = 0
	}
	return send, sink.data(stream, p, flags&h2EndStream != 0)
}

func (c *http2Client) settings(flags byte, p []byte, sink http2Sink, send []byte) []byte {
	if flags&h2Ack != 0 {
		return send
	}
	for ; len(p) >= 6; p = p[6:] {
		if binary.BigEndian.Uint16(p) == 0x4 {
			c.initWindow = int64(binary.BigEndian.Uint32(p[2:]))
		}
	}
	sink.window(0, 0)
	return appendH2Head(send, 0, h2Settings, h2Ack, 0)
}

// grpcMessages assembles gRPC messages from DATA frames.
type grpcMessages struct {
	rest []byte
}

// feed passes each complete message to take.
func (m *grpcMessages) feed(p []byte, take func([]byte) error) error {
	if len(m.rest) > 0 {
		m.rest = append(m.rest, p...)
		p = m.rest
	}
	for len(p) >= 5 {
		if p[0] != 0 {
			return errors.New("the server sent a compressed message")
		}
		n := int(binary.BigEndian.Uint32(p[1:]))
		if len(p) < 5+n {
			break
		}
		if err := take(p[5 : 5+n]); err != nil {
			return err
		}
		p = p[5+n:]
	}
	if len(p) == 0 {
		m.rest = nil
		return nil
	}
	m.rest = append([]byte(nil), p...)
	return nil
}

// grpcStatus returns an error unless the trailers contain the status OK.
func grpcStatus(fields []hpack.HeaderField) error {
	status, message := "", ""
	for _, f := range fields {
		switch f.Name {
		case "grpc-status":
			status = f.Value
		case "grpc-message":
			message = f.Value
		}
	}
	if status != "0" {
		return fmt.Errorf("the call ended with status %q: %s", status, message)
	}
	return nil
}
